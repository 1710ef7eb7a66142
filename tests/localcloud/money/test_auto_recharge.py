"""Auto-recharge (section 2, "Auto-recharge settings"): fires when the available balance drops below the threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support import inference
from tests.localcloud.support.billing import (
    CARDS,
    NOTIFIED,
    RECHARGE,
    balance_cents,
    charges,
    confirm,
    deposit,
    recharge,
    transactions,
)
from tests.localcloud.support.workloads import (
    DAY,
    act,
    balance,
    own_node,
    running_pod,
    set_organization,
    status,
)

if TYPE_CHECKING:
    from tests.localcloud.money.conftest import SetPayments
    from tests.localcloud.support.server import Organization

HOUR = 3600
MINUTE = 60


async def outcomes(organization: Organization) -> list[tuple[str, int]]:
    made = await charges(organization)
    assert {charge["reason"] for charge in made} <= {"auto_recharge"}
    return [(charge["status"], charge["amountCents"]) for charge in made]


async def test_settings_that_were_never_set_are_the_defaults(organization: Organization) -> None:
    assert await organization.ok("GET", RECHARGE) == {"enabled": False, "thresholdCents": 1000, "amountCents": 5000}


@pytest.mark.parametrize("cents", [1000, 50_000])
async def test_the_amount_may_be_at_its_bounds(organization: Organization, cents: int) -> None:
    await recharge(organization, 0, cents)


GOOD = {"enabled": True, "thresholdCents": 2000, "amountCents": 10_000}


ODD: list[object] = ["1000", 1.5, 1e3, True, [], {}, 10**30]


@pytest.mark.parametrize(
    "body",
    [
        *({key: value for key, value in GOOD.items() if key != missing} for missing in GOOD),
        *({**GOOD, field: None} for field in GOOD),
        *({**GOOD, "enabled": wrong} for wrong in (*ODD[:3], 0, 1, [], {})),
        *({**GOOD, "thresholdCents": wrong} for wrong in (*ODD, -(10**30))),
        *({**GOOD, "amountCents": wrong} for wrong in (*ODD, 999, 50_001, 0, -1)),
        [],
        None,
        "on",
    ],
    ids=repr,
)
async def test_settings_that_make_no_sense_are_400_and_change_nothing(organization: Organization, body: object) -> None:
    await recharge(organization, 5, 6000, enabled=False)
    assert (await organization.call("PUT", RECHARGE, body)).refusal == (400, "invalid_request")
    assert await organization.ok("GET", RECHARGE) == {"enabled": False, "thresholdCents": 5, "amountCents": 6000}


async def test_no_recharge_is_over_the_cap_of_the_organization(organization: Organization) -> None:
    await recharge(organization, 1000, 20_000)
    await set_organization(organization, depositCapCents=10_000)
    answer = await organization.call("PUT", RECHARGE, {**GOOD, "amountCents": 10_001})
    assert answer.refusal == (400, "DEPOSIT_CAP_EXCEEDED")
    await set_organization(organization, balanceCents=999)
    await organization.server.advance(DAY)
    assert await outcomes(organization) == []
    await recharge(organization, 1000, 10_000)
    await organization.server.advance(MINUTE + NOTIFIED)
    assert await outcomes(organization) == [("succeeded", 10_000)]


@pytest.mark.usefixtures("early_in_a_month")
async def test_it_fires_in_the_first_second_below_the_threshold(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=2000)
    await recharge(organization, 1000, 5000)
    await running_pod(organization)
    # 1,001 cents at 249 an hour are used up after 14,472.2 seconds.
    await organization.server.advance(14_472)
    assert (await balance(organization))["availableCents"] == 1000
    assert await outcomes(organization) == []
    await organization.server.advance(1)
    assert (await balance(organization))["availableCents"] == 999
    assert await outcomes(organization) == [("processing", 5000)]
    await organization.server.advance(NOTIFIED)
    assert await outcomes(organization) == [("succeeded", 5000)]
    assert (await transactions(organization))[-1] == ("deposit", 5000, "Auto-recharge")
    assert await balance_cents(organization) == 7000


async def test_it_keeps_workloads_running_for_a_month(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=2000)
    await recharge(organization, 1000, 1000)
    pod_id = await running_pod(organization)
    await organization.server.advance(30 * DAY)
    assert await status(organization, pod_id) == "running"
    shown = await balance(organization)
    used = 249 * 24 * 30
    recharged = 1000 * len(await charges(organization))
    assert shown["availableCents"] == 2000 + recharged - used
    assert 1000 <= shown["availableCents"] < 2000


async def test_what_is_below_the_threshold_already_is_recharged_at_once(organization: Organization) -> None:
    await set_organization(organization, balanceCents=500)
    await recharge(organization, 1000, 2000)
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 2500


async def test_at_the_threshold_nothing_is_recharged(organization: Organization) -> None:
    await set_organization(organization, balanceCents=1000)
    await recharge(organization, 1000, 2000)
    await organization.server.advance(DAY)
    assert await charges(organization) == []


async def test_where_one_is_not_enough_another_follows_a_minute_later(organization: Organization) -> None:
    await set_organization(organization, balanceCents=0)
    await recharge(organization, 2500, 1000)
    await organization.server.advance(MINUTE - 1)
    assert await outcomes(organization) == [("succeeded", 1000)]
    await organization.server.advance(1)
    assert await outcomes(organization) == [("succeeded", 1000), ("processing", 1000)]
    await organization.server.advance(DAY)
    assert await balance_cents(organization) == 3000


async def test_one_charge_at_a_time(organization: Organization, payments: SetPayments) -> None:
    await payments("manual")
    await set_organization(organization, balanceCents=0)
    await recharge(organization, 2500, 1000)
    await organization.server.advance(30 * DAY)
    await recharge(organization, 2500, 1000)
    await organization.server.advance(0)
    [charge] = await charges(organization)
    await confirm(organization.server, charge["chargeId"])
    await organization.server.advance(0)
    assert await outcomes(organization) == [("succeeded", 1000), ("processing", 1000)]


async def test_switched_off_it_does_nothing(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=1100)
    await recharge(organization, 1000, 5000)
    pod_id = await running_pod(organization)
    await recharge(organization, 1000, 5000, enabled=False)
    await organization.server.advance(5 * HOUR)
    assert await charges(organization) == []
    assert await status(organization, pod_id) == "stopped"


async def test_a_debit_of_tokens_fires_it_too(organization: Organization) -> None:
    await set_organization(organization, balanceCents=1000)
    await recharge(organization, 1000, 5000)
    await inference.ok(organization, "POST", inference.CHAT, inference.chat("w " * 99_999, max_tokens=1))
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 999 + 5000


async def test_a_deposit_in_time_makes_it_needless(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=1249)
    await recharge(organization, 1000, 5000)
    pod_id = await running_pod(organization)
    await organization.server.advance(HOUR - NOTIFIED)
    await deposit(organization, 20_000)
    await organization.server.advance(HOUR)
    assert [charge["reason"] for charge in await charges(organization)] == ["deposit"]
    await act(organization, pod_id, "stop")


async def test_a_declined_recharge_is_tried_again_after_one_two_and_four_hours(
    organization: Organization, payments: SetPayments
) -> None:
    await payments("decline")
    await set_organization(organization, balanceCents=0)
    await recharge(organization, 1000, 5000)
    await organization.server.advance(0)
    for tries, hours in enumerate((1, 2, 4), start=1):
        assert await outcomes(organization) == [("failed", 5000)] * tries
        await organization.server.advance(hours * HOUR - 1)
        assert await outcomes(organization) == [("failed", 5000)] * tries
        await organization.server.advance(1)
    await payments("auto")
    await organization.server.advance(8 * HOUR)
    assert (await outcomes(organization))[-1] == ("processing", 5000)
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 5000


async def test_declined_recharges_stop_what_runs_at_the_floor(
    organization: Organization, payments: SetPayments
) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=1249)
    await recharge(organization, 1000, 5000)
    pod_id = await running_pod(organization)
    await payments("decline")
    await organization.server.advance(6 * HOUR)
    assert await status(organization, pod_id) == "stopped"
    assert {outcome for outcome, _ in await outcomes(organization)} == {"failed"}
    refused = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert refused.refusal == (402, "INSUFFICIENT_BALANCE")


async def after_a_new_card(organization: Organization) -> Any:
    return await organization.server.ok("POST", f"/orgs/{organization.id}/cards", {})


async def after_saving_the_settings_again(organization: Organization) -> Any:
    return await recharge(organization, 1000, 5000)


async def after_a_deposit(organization: Organization) -> Any:
    await deposit(organization, 1000)
    await organization.server.advance(NOTIFIED)
    await set_organization(organization, balanceCents=0)


@pytest.mark.parametrize("what", [after_a_new_card, after_saving_the_settings_again, after_a_deposit])
async def test_a_declined_recharge_is_tried_again_within_a_minute(
    organization: Organization, payments: SetPayments, what: Any
) -> None:
    await payments("decline")
    await set_organization(organization, balanceCents=0)
    await recharge(organization, 1000, 5000)
    await organization.server.advance(4 * HOUR)
    await payments("auto")
    await what(organization)
    await organization.server.advance(MINUTE + NOTIFIED)
    assert await balance_cents(organization) == 5000


@pytest.mark.parametrize("lacking", ["card", "processor", "allowance"])
async def test_without_a_card_or_a_processor_or_over_the_cap_it_waits(
    organization: Organization, payments: SetPayments, lacking: str
) -> None:
    await set_organization(organization, balanceCents=1000)
    await recharge(organization, 1000, 5000)
    if lacking == "card":
        [card] = (await organization.ok("GET", CARDS))["items"]
        await organization.ok("DELETE", f"{CARDS}/{card['id']}")
    elif lacking == "processor":
        await payments("unconfigured")
    else:
        await set_organization(organization, depositCapCents=4999)
    await set_organization(organization, balanceCents=999)
    await organization.server.advance(3 * DAY)
    assert await charges(organization) == []
    await payments("auto")
    await set_organization(organization, depositCapCents=50_000)
    if lacking == "card":
        await after_a_new_card(organization)
    await organization.server.advance(HOUR + NOTIFIED)
    assert await balance_cents(organization) == 5999


async def test_a_card_whose_owner_must_act_recharges_once_confirmed(organization: Organization) -> None:
    [card] = (await organization.ok("GET", CARDS))["items"]
    await organization.ok("DELETE", f"{CARDS}/{card['id']}")
    await organization.server.ok("POST", f"/orgs/{organization.id}/cards", {"requiresAction": True})
    await set_organization(organization, balanceCents=0)
    await recharge(organization, 1000, 5000)
    await organization.server.advance(30 * DAY)
    assert await outcomes(organization) == [("requires_action", 5000)]
    [charge] = await charges(organization)
    await confirm(organization.server, charge["chargeId"])
    assert await balance_cents(organization) == 5000


@pytest.mark.parametrize("saved", ["card", "settings"])
async def test_a_charge_whose_owner_never_acts_does_not_hold_up_that_of_a_new_card(
    organization: Organization, saved: str
) -> None:
    for card in (await organization.ok("GET", CARDS))["items"]:
        await organization.ok("DELETE", f"{CARDS}/{card['id']}")
    waiting = await organization.server.ok("POST", f"/orgs/{organization.id}/cards", {"requiresAction": True})
    await set_organization(organization, balanceCents=0)
    if saved == "settings":
        await after_a_new_card(organization)
    await recharge(organization, 1000, 5000)
    await organization.server.advance(DAY)
    await organization.ok("DELETE", f"{CARDS}/{waiting['id']}")
    await (after_a_new_card if saved == "card" else after_saving_the_settings_again)(organization)
    await organization.server.advance(MINUTE + NOTIFIED)
    assert await outcomes(organization) == [("requires_action", 5000), ("succeeded", 5000)]
    [late, _] = await charges(organization)
    await confirm(organization.server, late["chargeId"])
    assert await balance_cents(organization) == 10_000


async def test_a_threshold_that_nothing_reaches_charges_once_a_minute_and_no_more(organization: Organization) -> None:
    await recharge(organization, 10**15, 1000)
    await organization.server.advance(HOUR - 1)
    assert len(await charges(organization)) == 60
    await recharge(organization, -(2**63), 1000)
    await organization.server.advance(HOUR)
    assert len(await charges(organization)) == 60
