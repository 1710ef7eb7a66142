"""How long a deleted account stays, and that another of its name has nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.accounts import key_secret
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.leftover import Fate, Leftover
from tests.unit.engine.apiserver import Fault, part
from tests.unit.flows.account.passes import KEY, LOOK, Passes
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from pydantic import JsonValue


async def test_an_account_that_is_created_again_has_nothing_of_the_former_one(passes: Passes) -> None:
    await passes.settled()
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    ready.unclaimed.learn("pod-9", "")
    assert passes.accounts.listens(KEY)
    account = passes.world.server.objects["cloudaccounts", NAMESPACE, "default"]
    fresh: JsonValue = {"name": "default", "namespace": NAMESPACE}
    passes.world.cache.put(KEY, passes.world.server.put("cloudaccounts", {**account, "metadata": fresh, "status": {}}))
    again = await passes.accounts.state(KEY)
    assert isinstance(again, AccountReady)
    assert ("pod-9" in again.unclaimed, passes.accounts.listens(KEY)) == (False, False)


async def test_accounts_of_a_namespace_share_the_room_for_lists(passes: Passes) -> None:
    """A tenant may have any number of accounts."""
    await passes.settled()
    account = passes.world.server.objects["cloudaccounts", NAMESPACE, "default"]
    another = ObjectKey(KEY.kind, NAMESPACE, "another")
    fresh: JsonValue = {"name": another.name, "namespace": NAMESPACE}
    passes.world.cache.put(another, passes.world.server.put("cloudaccounts", {**account, "metadata": fresh}))
    states = [await passes.accounts.state(key) for key in (KEY, another)]
    assert len({state.cloud.lists for state in states if isinstance(state, AccountReady)}) == 1
    assert len({state.cloud for state in states if isinstance(state, AccountReady)}) == 2


def left(passes: Passes, fate: Fate) -> Leftover:
    """What the cloud has without an object, recorded just now."""
    now = passes.world.clock.wall()
    record = Leftover(
        fate=fate, kind="GpuPod", account=KEY, organization="org-1", id="pod-7", name="made-late", since=now
    )
    passes.world.informer.vanished.leftovers.note(record)
    return record


def delete(passes: Passes) -> None:
    """`kubectl delete` of the account."""
    passes.world.server.remove("cloudaccounts", NAMESPACE, "default")
    passes.world.cache.put(KEY, passes.world.server.objects["cloudaccounts", NAMESPACE, "default"])


async def test_a_deleted_account_stays_until_its_late_create_has_ended_and_looks_for_more(passes: Passes) -> None:
    await passes.settled()
    record, sweeps = left(passes, Fate.LATE), passes.sweeps()
    delete(passes)
    assert await passes.go_on()
    assert passes.sweeps() == sweeps + 1
    assert "late creates in status.unclaimed" in passes.condition("Reconciling")[1]
    assert [one.id for one in passes.status().unclaimed or ()] == ["pod-7"]
    passes.world.informer.vanished.leftovers.forget(record)
    assert not await passes.go_on()


async def test_a_late_create_that_nobody_can_end_holds_a_deleted_account_for_a_day(passes: Passes) -> None:
    await passes.settled()
    left(passes, Fate.LATE)
    passes.used_by("train", 1)
    delete(passes)
    assert await passes.go_on(3 * 86400.0)
    passes.world.cache.drop(ObjectKey("GpuPod", NAMESPACE, "train"))
    assert await passes.go_on(86400.0 - LOOK)
    assert not await passes.go_on()
    assert len(passes.world.left_behind()) == 1, "the record stays for another account of the organization"


@pytest.mark.parametrize("fate", [Fate.ORPHAN, Fate.KEPT])
async def test_what_is_only_told_holds_no_deleted_account(passes: Passes, fate: Fate) -> None:
    await passes.settled()
    left(passes, fate)
    delete(passes)
    assert not await passes.go_on()


async def test_what_is_known_of_the_money_of_an_account_that_is_gone_is_forgotten(passes: Passes) -> None:
    await passes.settled()
    budgets = passes.world.budgets
    assert KEY in budgets._funds
    passes.world.cache.drop(KEY)
    await passes.flow.forget(KEY, None)
    assert KEY not in budgets._funds


def held(passes: Passes) -> bool:
    """Whether the account's Secret has the account's finalizer."""
    return "finalizers" in part(passes.world.server.objects["secrets", NAMESPACE, "key"], "metadata")


async def test_a_secret_that_may_not_be_released_is_told_by_the_account_that_it_holds(passes: Passes) -> None:
    await passes.settled()
    refused = Fault(403, method="PATCH", plural="secrets", times=99)
    passes.world.server.faults.append(refused)
    delete(passes)
    assert await passes.go_on()
    assert "the Secret key keeps a finalizer" in passes.condition("Stalled")[1]
    passes.world.server.faults.remove(refused)
    assert not await passes.go_on()
    assert not held(passes)


@pytest.mark.parametrize(("status", "released"), [(500, True), (403, False)])
async def test_the_secret_of_an_account_that_was_forced_away_is_released(
    passes: Passes, status: int, *, released: bool
) -> None:
    await passes.settled()
    assert held(passes)
    passes.world.server.faults.append(Fault(status, method="PATCH", plural="secrets"))
    passes.world.cache.drop(KEY)
    for _ in range(2):
        await passes.go_on()
    assert held(passes) is not released


async def test_the_secret_of_an_account_that_was_forced_away_and_made_again_at_once_is_released(
    passes: Passes,
) -> None:
    await passes.settled()
    account = passes.world.server.objects["cloudaccounts", NAMESPACE, "default"]
    fresh: JsonValue = {"name": "default", "namespace": NAMESPACE}
    made = passes.world.server.put("cloudaccounts", {**account, "metadata": fresh, "status": {}})
    passes.world.cache.put(KEY, made)
    passes.world.server.faults.append(Fault(500, method="PATCH", plural="secrets"))
    for _ in range(3):
        await passes.go_on()
    uid = str(part(made, "metadata")["uid"])
    secret = passes.world.server.objects["secrets", NAMESPACE, "key"]
    assert part(secret, "metadata")["finalizers"] == [key_secret.finalizer_of(uid)]
