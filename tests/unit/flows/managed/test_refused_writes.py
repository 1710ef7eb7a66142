"""What the API server refuses to write, or takes and drops, is told; nothing is created before it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.api.meta import FINALIZER
from relay_operator.engine.account import AccountWaiting
from relay_operator.engine.queue import Priority
from tests.unit.engine.apiserver import metadata_fault, part, status_fault
from tests.unit.flows.managed.leftovers import ACCOUNT, KEY

if TYPE_CHECKING:
    from pydantic import JsonValue

    from tests.unit.engine.apiserver import Call, Json
    from tests.unit.flows.managed.world import World

_TOLD = "WriteRefused: its finalizer or an annotation cannot be written: "


def _events(world: World) -> list[str]:
    """Reasons of the Events that wait to be written."""
    waiting = world.recorder._waiting
    return [waiting.get_nowait()[2].reason for _ in range(waiting.qsize())]


async def test_a_finalizer_that_is_refused_is_told_once_and_nothing_is_created(world: World) -> None:
    world.server.faults.append(refusal := metadata_fault(422, times=10_000))
    world.apply()
    await world.wait(300)
    assert world.stalled().startswith(f"{_TOLD}Scripted: scripted; check admission policies")
    assert (world.reason(), world.pods.created, _events(world)) == ("WriteRefused", [], ["WriteRefused"])
    assert world.server.writes.count("PATCH gpupods/status") == 1
    world.server.faults.remove(refusal)
    await world.wait(60)
    assert (world.reason(), world.stalled(), world.pods.count("create")) == ("Running", "", 1)


@pytest.mark.parametrize("dropped", ["finalizers", "annotations"])
async def test_a_finalizer_or_intent_that_is_dropped_is_told_and_nothing_is_created(world: World, dropped: str) -> None:
    def drop(raw: Json) -> None:
        part(raw, "metadata").pop(dropped, None)

    world.server._validate = drop
    world.apply()
    await world.wait(300)
    assert world.stalled().startswith(f"{_TOLD}the API server took them and dropped a part; check")
    assert world.pods.created == []
    world.server._validate = lambda _: None
    await world.wait(300)
    assert (world.reason(), world.pods.count("create")) == ("Running", 1)


async def test_a_finalizer_that_cannot_be_removed_is_told(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.server.faults.append(refusal := metadata_fault(403, times=10_000))
    world.delete()
    await world.wait(60)
    assert (world.exists(), world.pods.live) == (True, [])
    assert world.stalled().startswith(_TOLD)
    world.server.faults.remove(refusal)
    await world.wait(60)
    assert not world.exists()


async def test_what_runs_stays_ready_while_its_finalizer_is_refused(world: World) -> None:
    world.apply()
    await world.wait(10)
    world.server.faults.append(metadata_fault(422, times=10_000))
    world.server.edit("gpupods", KEY.namespace, KEY.name, {"metadata": {"finalizers": []}})
    await world.wait(60)
    assert (world.reason(), world.stalled().startswith(_TOLD)) == ("Running", True)


async def test_a_status_that_is_refused_is_told_in_an_event(world: World) -> None:
    world.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "none")
    world.server.faults.append(status_fault(422, times=10_000))
    world.apply()
    await world.wait(300)
    assert _events(world) == ["WriteRefused"]


async def test_nothing_is_created_with_an_account_that_has_no_finalizer(world: World) -> None:
    account: Json = {"name": "default", "uid": "a", "resourceVersion": "1"}
    world.cache.put(ACCOUNT, {"metadata": account})
    world.apply()
    await world.wait(60)
    assert (world.reason(), world.pods.created) == ("WaitingForAccount", [])
    assert world.message().startswith(f"{ACCOUNT} has no finalizer of the operator yet")
    going: Json = {**account, "deletionTimestamp": "2026-03-01T12:00:00Z"}
    held: dict[str, list[JsonValue]] = {"2": [], "3": [FINALIZER]}
    for version, finalizers in held.items():
        world.cache.put(ACCOUNT, {"metadata": {**going, "resourceVersion": version, "finalizers": finalizers}})
        world.queue.add(KEY, Priority.CHANGE)
        await world.settle()
        assert world.message() == f"{ACCOUNT} is being deleted: nothing is created with it"
        assert world.pods.created == []
    world.cache.put(ACCOUNT, {"metadata": {**account, "resourceVersion": "4", "finalizers": [FINALIZER]}})
    world.queue.add(KEY, Priority.CHANGE)
    await world.settle()
    assert (world.reason(), world.pods.count("create")) == ("Running", 1)


async def test_nothing_is_sent_with_an_account_whose_deletion_was_told_while_the_intent_was_written(
    world: World,
) -> None:
    """A shared account waits only for objects with an intent: this one's may come too late."""
    world.pods.listable = False
    account: Json = {"name": "default", "uid": "a", "resourceVersion": "1", "finalizers": [FINALIZER]}
    world.cache.put(ACCOUNT, {"metadata": account})

    def delete(_call: Call) -> None:
        going: Json = {"resourceVersion": "2", "deletionTimestamp": "2026-03-01T12:00:00Z"}
        world.cache.put(ACCOUNT, {"metadata": account | going})

    world.server.before = delete
    world.apply()
    await world.wait(60)
    assert (world.reason(), world.pods.calls) == ("WaitingForAccount", [])
    assert world.message() == f"{ACCOUNT} is being deleted: nothing is created with it"


async def test_nothing_is_sent_with_an_account_that_went_while_the_intent_was_written(world: World) -> None:
    account: Json = {"name": "default", "uid": "a", "resourceVersion": "1", "finalizers": [FINALIZER]}
    world.cache.put(ACCOUNT, {"metadata": account})

    def go(_call: Call) -> None:
        world.cache.drop(ACCOUNT, "a")
        world.account.state = AccountWaiting(Reason.ACCOUNT_MISSING, "it is gone")

    world.server.before = go
    world.apply()
    await world.wait(60)
    assert (world.reason(), world.pods.count("create")) == ("WaitingForAccount", 0)


@pytest.mark.parametrize("dropped", [True, False])
async def test_crds_are_doubted_once_the_api_server_drops_a_field_of_status(world: World, *, dropped: bool) -> None:
    def drop(raw: Json) -> None:
        part(raw, "status").pop("specHash" if dropped else "none", None)

    world.server._validate = drop
    world.apply()
    await world.wait(10)
    assert world.reconciler.engine.served.doubted is dropped
