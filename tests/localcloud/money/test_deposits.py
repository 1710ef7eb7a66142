"""Deposits: section 4, "Billing", and section 8; credited by the processor's notification alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.localcloud.support.billing import (
    CARDS,
    DEPOSIT,
    NOTIFIED,
    balance_cents,
    charges,
    confirm,
    deposit,
    set_payments,
    transactions,
    try_deposit,
)
from tests.localcloud.support.workloads import (
    DAY,
    UNTIL_RUNNING,
    act,
    balance,
    new_pod,
    own_node,
    running_pod,
    set_organization,
    status,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.money.conftest import SetPayments
    from tests.localcloud.support.server import Organization, Server


async def test_a_deposit_is_credited_two_seconds_later_by_the_notification(organization: Organization) -> None:
    made = await deposit(organization, 2500)
    assert made.pop("chargeId").startswith("ch_")
    assert made == {"status": "processing", "amountCents": 2500}
    await organization.server.advance(NOTIFIED - 0.001)
    assert await balance_cents(organization) == 100_000
    now = await organization.server.advance(0.001)
    shown = await balance(organization)
    assert shown["balanceCents"] == shown["availableCents"] == 102_500
    newest = shown["transactions"][0]
    assert newest.pop("id").startswith("txn_")
    assert newest == {"type": "deposit", "amountCents": 2500, "createdAt": now, "description": "Deposit"}


@pytest.mark.parametrize("cents", [1000, 50_000])
async def test_a_deposit_may_be_at_the_bounds(organization: Organization, cents: int) -> None:
    await deposit(organization, cents)
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 100_000 + cents


@pytest.mark.parametrize(
    "cents", [50_001, 10**30, -(10**30), 1e3, 1000.5, "1000", True, None, [], {}, float(2**70)], ids=repr
)
async def test_an_amount_out_of_bounds_or_of_another_type_is_400(organization: Organization, cents: object) -> None:
    assert (await try_deposit(organization, cents)).refusal == (400, "invalid_request")
    assert await charges(organization) == []


@pytest.mark.parametrize("cents", [999, 1, 0, -1000])
async def test_under_1000_cents_is_below_the_smallest_deposit(organization: Organization, cents: int) -> None:
    assert (await balance(organization))["minDepositCents"] == 1000
    assert (await try_deposit(organization, cents)).refusal == (400, "INSUFFICIENT_RUNWAY")
    assert await charges(organization) == []


@pytest.mark.parametrize("key", ["", 7, True, [], {}, "x" * 256, "a\0b"], ids=repr)
async def test_an_idempotency_key_that_is_none_is_400(organization: Organization, key: object) -> None:
    assert (await try_deposit(organization, 1000, idempotencyKey=key)).refusal == (400, "invalid_request")
    assert await charges(organization) == []


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"null", b"1000", b"{}", b'{"amount_cents": 1000}', b"\xff\xfe", b"[" * 100_000]
)
async def test_a_body_that_is_no_deposit_is_400(organization: Organization, raw: bytes) -> None:
    assert (await organization.call("POST", DEPOSIT, raw=raw)).refusal == (400, "invalid_request")
    assert await charges(organization) == []


async def test_an_unknown_field_of_a_deposit_is_accepted_and_shown_as_unread(organization: Organization) -> None:
    await deposit(organization, 1000, idempotency_key="misspelt")
    logged = (await organization.server.ok("GET", f"/requests?organizationId={organization.id}"))["items"][-1]
    assert logged["unreadFields"] == ["idempotency_key"]


async def test_the_same_key_again_is_the_same_charge(organization: Organization) -> None:
    first = await deposit(organization, 2000, idempotencyKey="one")
    assert await deposit(organization, 2000, idempotencyKey="one") == first
    await organization.server.advance(NOTIFIED)
    assert await deposit(organization, 2000, idempotencyKey="one") == {**first, "status": "succeeded"}
    await organization.server.advance(DAY)
    assert await balance_cents(organization) == 102_000
    assert [charge["chargeId"] for charge in await charges(organization)] == [first["chargeId"]]


async def test_without_a_key_every_deposit_is_another_charge(organization: Organization) -> None:
    for key in ({}, {}, {"idempotencyKey": None}):
        await deposit(organization, 2000, **key)
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 106_000


async def test_the_same_key_with_another_amount_is_409(organization: Organization) -> None:
    await deposit(organization, 2000, idempotencyKey="one")
    assert (await try_deposit(organization, 3000, idempotencyKey="one")).refusal == (409, "IDEMPOTENCY_KEY_REUSED")
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 102_000


async def test_a_key_belongs_to_its_organization(organization: Organization) -> None:
    other = await organization.server.organization()
    mine = await deposit(organization, 2000, idempotencyKey="one")
    theirs = await deposit(other, 3000, idempotencyKey="one")
    assert mine["chargeId"] != theirs["chargeId"]
    await organization.server.advance(NOTIFIED)
    assert (await balance_cents(organization), await balance_cents(other)) == (102_000, 103_000)


async def test_a_deposit_whose_reply_was_lost_is_charged_once_with_its_key(organization: Organization) -> None:
    fault = {
        "operation": "POST /v1/orgs/{orgId}/billing/deposit",
        "organizationId": organization.id,
        "count": 1,
        "effect": {"drop": "after"},
    }
    await organization.server.ok("POST", "/faults", fault)
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await deposit(organization, 2000, idempotencyKey="one")
    await deposit(organization, 2000, idempotencyKey="one")
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 102_000


async def test_a_retry_is_answered_also_when_payments_are_gone(
    organization: Organization, payments: SetPayments
) -> None:
    first = await deposit(organization, 1000, idempotencyKey="one")
    await payments("unconfigured")
    again = await deposit(organization, 1000, idempotencyKey="one")
    assert again["chargeId"] == first["chargeId"]
    assert (await try_deposit(organization, 1000)).refusal == (503, "PAYMENTS_UNCONFIGURED")


async def test_a_retry_is_answered_also_when_it_would_be_too_small_by_now(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=5000)
    first = await deposit(organization, 1000, idempotencyKey="one")
    await new_pod(organization, gpuCount=8)
    await organization.server.advance(UNTIL_RUNNING)
    assert (await try_deposit(organization, 1000)).refusal == (400, "INSUFFICIENT_RUNWAY")
    again = await deposit(organization, 1000, idempotencyKey="one")
    assert again == {**first, "status": "succeeded"}


# The smallest and the largest deposit.


async def test_a_deposit_lasts_for_three_days_of_what_runs(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=5000, autoStopFloorCents=200)
    pod_id = await running_pod(organization)
    least = 72 * 249 - (5000 - 200)
    assert (await balance(organization))["minDepositCents"] == least
    assert (await try_deposit(organization, least - 1)).refusal == (400, "INSUFFICIENT_RUNWAY")
    await organization.server.advance(3600)
    least += 249
    assert (await balance(organization))["minDepositCents"] == least
    assert (await try_deposit(organization, least - 1)).refusal == (400, "INSUFFICIENT_RUNWAY")
    await deposit(organization, least)
    await organization.server.advance(NOTIFIED)
    assert (await balance(organization))["minDepositCents"] == 1000
    await act(organization, pod_id, "stop")
    await deposit(organization, 1000)


async def test_with_nothing_running_the_smallest_deposit_is_1000_whatever_is_owed(organization: Organization) -> None:
    await set_organization(organization, balanceCents=-70_000)
    assert (await balance(organization))["minDepositCents"] == 1000
    await deposit(organization, 1000)


async def test_the_smallest_deposit_is_clamped_to_the_cap_of_the_organization(organization: Organization) -> None:
    await own_node(organization)
    await set_organization(organization, balanceCents=5000)
    await running_pod(organization, gpuCount=8)
    assert (await balance(organization))["minDepositCents"] == 50_000
    await set_organization(organization, depositCapCents=20_000)
    assert (await balance(organization))["minDepositCents"] == 20_000
    assert (await try_deposit(organization, 19_999)).refusal == (400, "INSUFFICIENT_RUNWAY")
    assert (await try_deposit(organization, 20_001)).refusal == (400, "DEPOSIT_CAP_EXCEEDED")
    await deposit(organization, 20_000)


# The processor.


async def test_a_declined_deposit_is_200_failed_and_credits_nothing(
    organization: Organization, payments: SetPayments
) -> None:
    await payments("decline")
    made = await deposit(organization, 2000, idempotencyKey="one")
    assert (made["status"], made["amountCents"]) == ("failed", 2000)
    await payments("auto")
    assert await deposit(organization, 2000, idempotencyKey="one") == made
    await organization.server.advance(DAY)
    assert await balance_cents(organization) == 100_000
    refused = await organization.server.control("POST", f"/payments/{made['chargeId']}/confirm")
    assert refused.refusal == (409, "conflict")


async def test_unconfigured_payments_are_503(organization: Organization, payments: SetPayments) -> None:
    [card] = (await organization.ok("GET", CARDS))["items"]
    await payments("unconfigured")
    for method, path, body in (
        ("POST", DEPOSIT, {"amountCents": 1000}),
        ("POST", "/v1/orgs/{org}/billing/setup-intent", {}),
        ("DELETE", f"{CARDS}/{card['id']}", {}),
        (
            "PUT",
            "/v1/orgs/{org}/billing/auto-recharge",
            {"enabled": True, "thresholdCents": 1000, "amountCents": 1000},
        ),
    ):
        assert (await organization.call(method, path, body)).refusal == (503, "PAYMENTS_UNCONFIGURED"), path
    assert (await organization.call("POST", DEPOSIT, {"amountCents": 1})).status == 400
    assert (await organization.ok("GET", CARDS))["items"] == [card]
    assert (await organization.ok("GET", "/v1/orgs/{org}/billing/auto-recharge"))["enabled"] is False
    assert await charges(organization) == []


async def test_in_mode_manual_nothing_is_credited_before_the_confirmation_and_once_after(
    server: Server, organization: Organization, payments: SetPayments
) -> None:
    await payments("manual")
    made = await deposit(organization, 2000, idempotencyKey="one")
    assert made["status"] == "processing"
    await server.advance(30 * DAY)
    assert await balance_cents(organization) == 100_000
    for _ in range(2):
        confirmed = await confirm(server, made["chargeId"])
        assert (confirmed["chargeId"], confirmed["status"]) == (made["chargeId"], "succeeded")
    assert await transactions(organization) == [("deposit", 2000, "Deposit")]
    assert await deposit(organization, 2000, idempotencyKey="one") == {**made, "status": "succeeded"}


async def test_a_confirmation_ahead_of_time_credits_once(server: Server, organization: Organization) -> None:
    made = await deposit(organization, 2000)
    await confirm(server, made["chargeId"])
    assert await balance_cents(organization) == 102_000
    await server.advance(DAY)
    assert await balance_cents(organization) == 102_000


async def test_what_the_processor_took_on_goes_on_when_its_mode_changes(
    organization: Organization, payments: SetPayments
) -> None:
    await deposit(organization, 2000)
    await payments("decline")
    await organization.server.advance(NOTIFIED)
    assert await balance_cents(organization) == 102_000


async def test_charges_are_listed_with_what_they_are_for(organization: Organization) -> None:
    now = await organization.server.advance(0)
    made = await deposit(organization, 2000)
    assert await charges(organization) == [
        {**made, "organizationId": organization.id, "reason": "deposit", "createdAt": now}
    ]
    everything = await organization.server.ok("GET", "/payments")
    assert everything["mode"] == "auto"
    assert everything["items"][-1]["chargeId"] == made["chargeId"]


@pytest.mark.parametrize("body", [{}, {"mode": "maybe"}, {"mode": None}, {"mode": 1}, {"mode": "auto", "more": 1}])
async def test_a_mode_that_does_not_exist_is_400(server: Server, body: object) -> None:
    assert (await server.control("POST", "/payments", body)).refusal == (400, "invalid_request")


async def test_a_charge_that_does_not_exist_cannot_be_confirmed(server: Server) -> None:
    assert (await server.control("POST", "/payments/ch_nothing/confirm")).refusal == (404, "not_found")


async def test_a_deposit_starts_what_the_balance_stopped_only_once_it_is_credited(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-1)
    await organization.server.advance(2)
    assert await status(organization, pod_id) == "stopped"
    await deposit(organization, 1000)
    refused = await organization.call("POST", f"/v1/vms/{pod_id}/restart")
    assert refused.refusal == (402, "INSUFFICIENT_BALANCE")
    await organization.server.advance(NOTIFIED)
    assert (await act(organization, pod_id, "restart"))["status"] == "deploying"


async def test_a_deposit_within_seven_days_keeps_what_the_balance_stopped(organization: Organization) -> None:
    await own_node(organization)
    pod_id = await running_pod(organization)
    await set_organization(organization, balanceCents=-1)
    await organization.server.advance(7 * DAY - NOTIFIED - 1)
    await deposit(organization, 1000)
    await organization.server.advance(DAY)
    assert await status(organization, pod_id) == "stopped"


async def test_a_deposit_survives_a_kill_and_is_credited_once(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    organization = server.seeded()
    made = await deposit(organization, 2000, idempotencyKey="one")
    server.kill()
    server.start()
    organization = server.seeded()
    assert await deposit(organization, 2000, idempotencyKey="one") == made
    await server.advance(NOTIFIED)
    assert await balance_cents(organization) == 102_000


async def test_an_export_has_charges_cards_and_the_processor(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    await set_payments(server, "manual")
    made = await deposit(organization, 2000, idempotencyKey="one")
    await server.ok("POST", "/import", await server.ok("GET", "/export"))
    assert (await server.ok("GET", "/payments"))["mode"] == "manual"
    assert await deposit(organization, 2000, idempotencyKey="one") == made
    assert len((await organization.ok("GET", CARDS))["items"]) == 1
    await confirm(server, made["chargeId"])
    assert await balance_cents(organization) == 102_000
