"""A look at an account has parts, and one that fails or is held back takes nothing else with it."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from relay_client.answers import MAX_VALUES
from relay_operator.api.cloudaccount import AccountBudget
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.lines import Age
from relay_operator.engine.account import AccountReady
from relay_operator.engine.commitment import Commitment
from tests.support.eventually import eventually
from tests.unit.engine.apiserver import Fault
from tests.unit.flows.account.passes import KEY, UID, Passes
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue


@pytest.mark.parametrize("begins", [False, True])
async def test_the_burn_is_read_again_soon_if_something_began_to_run_meanwhile(passes: Passes, begins: bool) -> None:
    await passes.settled()
    passes.cloud.answers.clear()
    looking = asyncio.create_task(passes.look())

    async def asked() -> list[str]:
        return passes.cloud.asked

    passes.cloud.asked.clear()
    await eventually(asked, bool, every=0.01)
    if begins:
        metadata: JsonValue = {"name": "train", "namespace": NAMESPACE, "uid": UID, "resourceVersion": "1"}
        status: JsonValue = {"id": "pod-1", "state": "running", "pricePerHourCents": 249}
        passes.world.cache.put(ObjectKey("GpuPod", NAMESPACE, "train"), {"metadata": metadata, "status": status})
    passes.cloud.answers.set()
    await looking
    assert ("usage" in await passes.glances(62)) == begins


async def test_the_burn_is_read_again_once_what_ended_since_may_have_made_room(passes: Passes) -> None:
    """Not at every end: thousands of objects may end in a minute."""
    pod, waiting = (ObjectKey("GpuPod", NAMESPACE, name) for name in ("train", "waits"))
    budget = AccountBudget(max_burn_per_hour_cents=300)
    passes.cloud.breakdown = {}
    passes.change({"budget": {"maxBurnPerHourCents": 300}})
    version = itertools.count(1)

    def shows(state: str) -> None:
        metadata: JsonValue = {"namespace": NAMESPACE, "uid": UID, "resourceVersion": str(next(version))}
        status: JsonValue = {"id": "pod-1", "state": state, "pricePerHourCents": 249}
        passes.world.cache.put(pod, {"metadata": metadata, "status": status})

    shows("running")
    await passes.settled()
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    for delay in (0.0, 5.0):
        shows("running")
        await passes.look()
        await passes.glances(delay)
        shows("stopped")
        refused = passes.world.budgets.ask(waiting, Age("", "u"), replace(ready, budget=budget), Commitment(200))
        assert "149 too much" in refused
        await passes.glances(10 - delay - 0.5, every=0.5)
        assert passes.cloud.asked.count("usage") == 0
        await passes.glances(1, every=0.5)
        assert passes.cloud.asked.count("usage") == 1


async def test_a_cloud_without_the_assumed_operations_is_used_without_them(passes: Passes) -> None:
    passes.cloud.unserved, passes.public_url = ("usage", "webhooks"), "https://operator.example"
    await passes.restart()
    for _ in range(4):
        await passes.look()
    assert (passes.condition("Ready")[0], passes.status().available_cents) == ("True", 10**6)
    assert "the usage cannot be read" in passes.condition("Ready")[1]
    assert passes.condition("WebhookReady")[0] == "False"
    passes.cloud.unserved = ()
    await passes.look()
    assert passes.condition("Ready") == ("True", "the key works")


async def test_a_breakdown_that_cannot_be_read_is_said_and_changes_neither_the_burn_nor_what_was_spent(
    passes: Passes,
) -> None:
    passes.used_by("train", 300)
    before = await passes.look()
    passes.cloud.breakdown = {"gpu": 300}
    assert await passes.look() == before
    assert passes.status().burn_per_hour_cents == 249
    assert passes.condition("Ready") == ("True", "the key works; what the usage was spent on cannot be read")


async def test_a_long_usage_and_a_long_list_of_transactions_are_read(passes: Passes) -> None:
    passes.cloud.breakdown = [{"resourceId": f"id-{number}", "cents": 1} for number in range(MAX_VALUES // 2)]
    passes.cloud.transactions = MAX_VALUES // 2
    await passes.settled()
    assert passes.condition("Ready") == ("True", "the key works")
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    passes.cloud.available = 5 * 10**6
    assert "usage" in await passes.glances(12)


async def test_a_router_that_knows_none_of_the_clouds_paths_is_not_taken_for_the_cloud(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.unserved = ("usage", "balance")
    for _ in range(4):
        await passes.look()
    assert passes.condition("Stalled")[0] == "True"


async def test_a_part_of_a_look_that_fails_takes_nothing_else_with_it(passes: Passes) -> None:
    recharge: JsonValue = {"enabled": True, "thresholdCents": 1000, "amountCents": 5000}
    passes.change({"autoRecharge": recharge})
    passes.cloud.failing = ("auto-recharge",)
    for _ in range(3):
        await passes.look()
    assert passes.condition("Ready")[0] == "True"
    assert "auto-recharge cannot be set" in passes.condition("Ready")[1]
    assert (passes.status().available_cents, passes.conditions()) == (10**6, {"Ready"})
    assert passes.sweeps() == 3


@pytest.mark.parametrize(("annotation", "changed"), [("paused", []), ("plan-only", []), ("other", ["auto-recharge"])])
async def test_an_annotation_that_holds_back_everything_leaves_money_as_it_is(
    passes: Passes, annotation: str, changed: list[str]
) -> None:
    recharge: JsonValue = {"enabled": True, "thresholdCents": 1000, "amountCents": 5000}
    metadata: JsonValue = {"annotations": {f"gpurelay.dev/{annotation}": "true"}}
    passes.world.server.edit("cloudaccounts", NAMESPACE, "default", {"metadata": metadata})
    passes.change({"autoRecharge": recharge})
    await passes.look()
    assert passes.cloud.changed == changed
    assert ("Paused" in passes.conditions()) is (not changed)


@pytest.mark.parametrize("part", ["usage", "webhooks"])
async def test_every_other_part_of_a_look_may_fail_alone(passes: Passes, part: str) -> None:
    passes.public_url, passes.cloud.failing = "https://operator.example", (part,)
    await passes.restart()
    for _ in range(4):
        await passes.look()
    assert (passes.condition("Ready")[0], "Stalled" in passes.conditions()) == ("True", False)
    assert "cannot be" in passes.condition("Ready")[1]


async def test_a_cloud_whose_balance_fails_is_not_well(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.failing = ("balance",)
    for _ in range(4):
        await passes.look()
    assert (passes.condition("Ready")[0], passes.condition("Stalled")[0]) == ("True", "True")


async def test_a_failed_part_is_tried_again_soon(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.failing = ("usage",)
    await passes.look()
    passes.cloud.asked.clear()
    await passes.look(seconds=60)
    assert "usage" in passes.cloud.asked
    assert passes.condition("Ready") == ("True", "the key works"), "it may have been a moment"


async def test_numbers_that_no_gauge_can_hold_do_not_keep_an_account_from_being_shown(passes: Passes) -> None:
    passes.cloud.available = 10**400
    passes.cloud.cents = {"huge": 10**400}
    await passes.look()
    assert passes.condition("Ready")[0] == "True"
    assert passes.status().available_cents == 2**63 - 1


async def test_what_people_change_while_the_cloud_is_read_is_not_written_over(passes: Passes) -> None:
    await passes.settled()
    passes.change({"autoRecharge": {"enabled": True, "thresholdCents": 1000, "amountCents": 5000}})
    passes.cloud.on_read = lambda asked: passes.change({"autoRecharge": None}) if asked == "auto-recharge" else None
    await passes.look()
    assert "auto-recharge" in passes.cloud.asked
    assert passes.cloud.changed == []
    await passes.look()
    assert passes.condition("Ready") == ("True", "the key works")


async def test_what_waits_for_the_finalizer_is_woken_once_it_is_written(passes: Passes) -> None:
    waits, lives = (ObjectKey("GpuPod", NAMESPACE, name) for name in ("waits", "lives"))
    for key, cloud_id in ((waits, None), (lives, "pod-1")):
        metadata: JsonValue = {"name": key.name, "namespace": NAMESPACE, "uid": key.name, "resourceVersion": "1"}
        passes.world.cache.put(key, {"metadata": metadata, "status": {"id": cloud_id}})
    await passes.accounts.state(KEY)
    await passes.woken()
    passes.world.server.faults.append(Fault(422, method="PATCH", plural="cloudaccounts", status_write=False))
    await passes.go_on()
    assert (waits in await passes.woken(), passes.condition("Stalled")[0]) == (False, "True")
    assert "its finalizer or an annotation cannot be written: Scripted" in passes.condition("Stalled")[1]
    await passes.go_on()
    assert waits in (woken := await passes.woken())
    assert lives not in woken
    assert "Stalled" not in passes.conditions()
