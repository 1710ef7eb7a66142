"""Passes over an account: what they tell of the month, and that they write no more than that."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from aiohttp import web
from prometheus_client import CollectorRegistry

from relay_client import ConnectionPool, PaymentRequired
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.cloudaccount import CLOUD_ACCOUNT, AccountStatus, CloudAccount, Spend
from relay_operator.api.meta import API_VERSION, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.controller import Controller
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.leftovers import Fate, Leftover
from relay_operator.engine.queue import Priority, Taken
from relay_operator.flows.account.bookkeeping import Bookkeeper, Departed
from relay_operator.flows.account.flow import AccountFlow
from relay_operator.flows.account.sweep import Sweeper
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings
from tests.support.eventually import eventually
from tests.unit.engine.apiserver import Fault, part
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE, World

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pydantic import JsonValue

KEY, UID = ObjectKey("CloudAccount", NAMESPACE, "default"), "1234abcd-5678-4ef0-9abc-def012345678"
CONFIG_MAP = "configmaps", NAMESPACE, "relay-spend-default"
LOOK = 301.0
"""Seconds after which the cloud is asked again."""


@dataclass
class MoneyCloud:
    """A cloud that has one organization, and nothing but its money."""

    cents: dict[str, int] = field(default_factory=dict)
    """Of the month, by the names of what it was used for; the ids are made of them."""
    available: int | None = 10**6
    """What is left; None if the key may not read it."""
    breakdown: JsonValue = None
    """What it answers as the breakdown of the usage, if not a line for each of `cents`."""
    asked: list[str] = field(default_factory=list)
    url: str = ""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it answers."""
    unserved: tuple[str, ...] = ()
    """Paths' last parts for which a router answers that it does not know them."""
    changed: list[str] = field(default_factory=list)
    """Of `asked`, what was not only read."""
    failing: tuple[str, ...] = ()
    """Paths' last parts for which the cloud answers that it cannot."""

    async def answer(self, request: web.Request) -> web.Response:
        used = sum(self.cents.values())
        lines = [{"resourceId": f"id-{name}", "name": name, "cents": cents} for name, cents in self.cents.items()]
        self.asked.append(request.path.rpartition("/")[2])
        if request.method != "GET":
            self.changed.append(self.asked[-1])
        await self.answers.wait()
        if self.asked[-1] in self.unserved:
            return web.json_response({"detail": "Not Found"}, status=404)
        if self.asked[-1] in self.failing:
            return web.json_response({"error": "it cannot"}, status=503)
        match self.asked[-1]:
            case "whoami":
                return web.json_response({"principalType": "api_key", "organizationId": "org-1", "scopes": []})
            case "balance" if self.available is None:
                return web.json_response({"error": {"message": "no billing:read"}}, status=403)
            case "balance":
                left = {"balanceCents": 10**6, "availableCents": self.available, "accruedUsageCents": 0}
                return web.json_response({**left, "currentMonthUsageCents": used, "transactions": []})
            case "usage" if self.breakdown is not None:
                told = {"usageCents": used, "usageHours": 1.0, "burnPerHourCents": 249}
                return web.json_response({**told, "breakdown": self.breakdown})
            case "usage":
                return web.json_response({"usageCents": used, "usageHours": 1.0, "breakdown": lines})
            case "auto-recharge":
                return web.json_response({"enabled": False, "thresholdCents": 0, "amountCents": 0})
            case _:
                return web.json_response({"items": []})


@dataclass
class Passes:
    """An account, and one process of the operator."""

    world: World
    cloud: MoneyCloud
    called: list[ObjectKey] = field(default_factory=list)
    """Other objects that were to have a pass."""
    public_url: str = ""

    def begin(self) -> None:
        """A process that knows what the watch told of the account."""
        world, self.metrics, self.departed = self.world, Metrics(CollectorRegistry()), Departed()
        engine, cache = world.reconciler.engine, world.cache
        cache.on_left = lambda key, entry: self.departed.note(key, entry, cache.account_meant(key, entry))
        settings = Settings(
            namespace=OPERATOR_NAMESPACE,
            allowed_base_urls=(self.cloud.url,),
            webhook_public_url=self.public_url,
            poll_jitter=0,
        )
        clock = world.clock.monotonic
        self.accounts = Accounts(settings, world.kube, cache, world.queue, ConnectionPool(), frozenset(), clock)
        sweeper = Sweeper(engine, {}, True, lambda _kind: None, self.accounts.organization_of)
        bookkeeper = Bookkeeper(engine, self.departed, OPERATOR_NAMESPACE)
        plurals = {"GpuPod": "gpupods"}
        shared = engine, settings, self.accounts, self.metrics, plurals, sweeper, bookkeeper, world.budgets
        flow = AccountFlow(CLOUD_ACCOUNT, CloudAccount, *shared)
        self.controller = Controller(engine, flow)
        cache.put(KEY, world.server.objects["cloudaccounts", NAMESPACE, "default"])

    async def restart(self) -> None:
        await self.accounts.close()
        self.world.assemble()
        self.begin()

    async def look(self, seconds: float = LOOK) -> Spend | None:
        """A pass after some time; what status tells of the month then."""
        await self.go_on(seconds)
        return self.status().spend

    async def go_on(self, seconds: float = LOOK) -> bool:
        """A pass after some time; whether the account still exists then."""
        self.world.clock.seconds += seconds
        await self.controller.reconcile(Taken(KEY, Priority.CHANGE, self.world.clock.monotonic()))
        return ("cloudaccounts", NAMESPACE, "default") in self.world.server.objects

    def status(self) -> AccountStatus:
        return CloudAccount.model_validate(self.world.server.objects["cloudaccounts", NAMESPACE, "default"]).status

    def change(self, spec: dict[str, JsonValue]) -> None:
        """Fields of the spec that a person sets."""
        self.world.cache.put(KEY, self.world.server.edit("cloudaccounts", NAMESPACE, "default", {"spec": spec}))

    def sweeps(self) -> int:
        memory = self.controller.memories.get(KEY)
        return 0 if memory is None else memory.sweep.sweeps

    def conditions(self) -> set[str]:
        """The types of those that are true."""
        return {one.type for one in self.status().conditions if one.status == "True"}

    def condition(self, kind: str) -> tuple[str, str]:
        """The condition's status and message."""
        return next((one.status, one.message) for one in self.status().conditions if one.type == kind)

    async def settled(self) -> None:
        """Looks until its own finalizer on the Secret is no news any more."""
        for _ in range(2):
            await self.look()

    async def glances(self, seconds: float, every: float = 1.0) -> list[str]:
        """What the cloud is asked while so much time passes, with a pass whenever one is due."""
        self.cloud.asked.clear()
        for _ in range(int(seconds / every)):
            self.world.clock.seconds += every
            while (taken := await self._due()) is not None:
                if taken.key == KEY:
                    await self.controller.reconcile(taken)
                else:
                    self.called.append(taken.key)
                self.world.queue.done(taken.key)
        return self.cloud.asked

    async def _due(self) -> Taken[ObjectKey] | None:
        try:
            async with asyncio.timeout(0):
                return await self.world.queue.take()
        except TimeoutError:
            return None

    async def refuse(self, key: ObjectKey) -> None:
        """The cloud does, for want of funds."""
        ready = await self.accounts.state(KEY)
        assert isinstance(ready, AccountReady)
        self.accounts.failed(ready, PaymentRequired("create", "no funds", status=402), key)
        assert self.accounts.lacks_funds(ready, key)

    def used_by(self, name: str, cents: int) -> None:
        """An object whose resource cost so much."""
        given = cloud_name(NAMESPACE, name, UID, "c0ffe", 1)
        self.cloud.cents[given] = cents
        metadata: JsonValue = {"name": name, "namespace": NAMESPACE, "uid": UID, "resourceVersion": "1"}
        status: JsonValue = {"id": f"id-{given}", "cloudName": given}
        self.world.cache.put(ObjectKey("GpuPod", NAMESPACE, name), {"metadata": metadata, "status": status})

    def written(self) -> list[str]:
        """Since it was asked last."""
        writes = list(self.world.server.writes)
        self.world.server.calls.clear()
        return writes


@pytest_asyncio.fixture
async def passes(world: World) -> AsyncIterator[Passes]:
    cloud = MoneyCloud()
    cloud.answers.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cloud.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cloud.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    api_key: JsonValue = {"api-key": base64.b64encode(b"or_test_key").decode()}
    world.server.put("secrets", {"metadata": {"name": "key", "namespace": NAMESPACE}, "data": api_key})
    spec: JsonValue = {"baseUrl": cloud.url, "apiKeySecretRef": {"name": "key", "key": "api-key"}}
    metadata: JsonValue = {"name": "default", "namespace": NAMESPACE}
    account: dict[str, JsonValue] = {"apiVersion": API_VERSION, "kind": "CloudAccount", "metadata": metadata}
    world.server.put("cloudaccounts", {**account, "spec": spec})
    made = Passes(world, cloud)
    made.begin()
    yield made
    await made.accounts.close()
    await runner.cleanup()


async def test_what_an_object_spent_is_told_as_soon_as_it_is_a_cent_and_kept_when_it_is_gone(passes: Passes) -> None:
    spend = await passes.look()
    assert (spend is not None and spend.by_namespace, CONFIG_MAP in passes.world.server.objects) == ([], False)
    passes.used_by("train", 1)
    spend = await passes.look()
    assert spend is not None
    assert [(one.name, one.cents) for one in spend.by_namespace] == [(NAMESPACE, 1)]
    assert CONFIG_MAP in passes.world.server.objects
    passes.world.cache.drop(ObjectKey("GpuPod", NAMESPACE, "train"))
    await passes.restart()
    await passes.look()
    shown = {"account_namespace": NAMESPACE, "account": "default", "namespace": NAMESPACE}
    labels = {**shown, "cost_center": "unattributed"}
    assert passes.metrics.registry.get_sample_value("gpurelay_spend_cents", labels) == 1


async def test_what_is_settled_writes_nothing_and_what_spends_little_writes_once_an_hour(passes: Passes) -> None:
    passes.used_by("train", 1_000)
    await passes.look()
    passes.written()
    for _ in range(4):
        await passes.look(LOOK * 4)
    assert passes.written() == []
    passes.used_by("train", 1_050)
    first = await passes.look()
    assert passes.written() == ["PATCH cloudaccounts/status"]
    for cents in range(1_051, 1_062):
        passes.used_by("train", cents)
        assert await passes.look() == first
    assert passes.written() == []
    passes.used_by("train", 1_070)
    assert await passes.look() != first
    assert passes.written() == ["PATCH cloudaccounts/status"]


async def test_books_that_cannot_be_kept_are_told_with_the_account(passes: Passes) -> None:
    theirs: JsonValue = {"name": CONFIG_MAP[2], "namespace": NAMESPACE}
    passes.world.server.put("configmaps", {"metadata": theirs})
    passes.used_by("train", 5)
    await passes.look()
    status, message = passes.condition("Ready")
    assert (status, "relay-spend-default" in message) == ("True", True)


async def test_while_something_waits_for_funds_the_balance_alone_is_read_and_a_rise_calls_it(passes: Passes) -> None:
    passes.cloud.available = -324
    await passes.settled()
    assert "balance" not in await passes.glances(60)
    pod = ObjectKey("GpuPod", NAMESPACE, "train")
    await passes.refuse(pod)
    assert await passes.glances(60) == ["balance"] * 6
    passes.cloud.available = 1_000
    called = await passes.glances(12)
    assert (called[0], called.count("balance"), "usage" in called) == ("balance", 2, True)
    assert passes.called == [pod]
    assert "balance" not in await passes.glances(60)


async def test_a_key_that_may_not_read_the_balance_is_not_asked_for_it_all_the_time(passes: Passes) -> None:
    passes.cloud.available = None
    await passes.settled()
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    assert (await passes.glances(200)).count("balance") == 1


async def test_a_new_key_is_tried_although_the_first_look_with_it_was_cancelled(passes: Passes) -> None:
    with_the_old = await passes.accounts.state(KEY)
    new_key: JsonValue = {"api-key": base64.b64encode(b"or_another_key").decode()}
    passes.world.server.edit("secrets", NAMESPACE, "key", {"data": new_key})
    passes.cloud.asked.clear()
    passes.cloud.answers.clear()
    passes.world.clock.seconds += LOOK
    looking = asyncio.create_task(passes.accounts.state(KEY))

    async def asked() -> list[str]:
        return passes.cloud.asked

    await eventually(asked, bool, every=0.01)
    looking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await looking
    passes.cloud.answers.set()
    passes.world.clock.seconds += LOOK
    with_the_new = await passes.accounts.state(KEY)
    assert isinstance(with_the_new, AccountReady)
    assert with_the_new is not with_the_old
    assert passes.cloud.asked == ["whoami", "whoami"]


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


async def test_a_secret_that_may_not_be_written_is_told_and_the_account_is_used(passes: Passes) -> None:
    passes.world.server.faults.append(Fault(403, method="PATCH", plural="secrets", times=99))
    await passes.settled()
    assert "the Secret key may be gone" in passes.condition("Ready")[1]
    assert (passes.condition("Ready")[0], passes.status().available_cents) == ("True", 10**6)
    passes.world.server.faults.clear()
    await passes.look()
    assert passes.condition("Ready") == ("True", "the key works")


async def test_a_former_secret_that_may_not_be_released_stays_noted_until_it_is(passes: Passes) -> None:
    await passes.settled()
    secret = passes.world.server.objects["secrets", NAMESPACE, "key"]
    passes.world.server.put("secrets", {"metadata": {"name": "other", "namespace": NAMESPACE}, "data": secret["data"]})
    passes.world.server.faults.append(Fault(403, method="PATCH", plural="secrets", times=99))
    passes.change({"apiKeySecretRef": {"name": "other", "key": "api-key"}})
    await passes.look()
    assert "keeps a finalizer" in passes.condition("Ready")[1]
    passes.world.server.faults.clear()
    await passes.look()
    assert "finalizers" not in part(passes.world.server.objects["secrets", NAMESPACE, "key"], "metadata")
    assert part(passes.world.server.objects["secrets", NAMESPACE, "other"], "metadata")["finalizers"]


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
