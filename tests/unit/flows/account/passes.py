"""An account of a cloud that has nothing but its money, one process of the operator, and passes over it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry

from relay_client import ConnectionPool, PaymentRequired
from relay_operator.accounts.accounts import Accounts
from relay_operator.api.cloudaccount import CLOUD_ACCOUNT, CloudAccount
from relay_operator.api.cloudaccount_status import AccountStatus, Spend
from relay_operator.api.meta import RECONCILE_AT, ObjectKey
from relay_operator.engine.account import AccountReady
from relay_operator.engine.controller import Controller
from relay_operator.engine.intent import cloud_name
from relay_operator.engine.queue import Priority, Taken
from relay_operator.flows.account.act import Actor
from relay_operator.flows.account.bookkeeping import Bookkeeper, Departed
from relay_operator.flows.account.flow import AccountFlow
from relay_operator.flows.account.sweep import Sweeper
from relay_operator.observability.metrics import Metrics
from relay_operator.settings import Settings
from tests.unit.flows.managed.world import NAMESPACE, OPERATOR_NAMESPACE, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import JsonValue

KEY, UID = ObjectKey("CloudAccount", NAMESPACE, "default"), "1234abcd-5678-4ef0-9abc-def012345678"
LOOK = 301.0
"""Seconds after which the cloud is asked again."""


@dataclass
class MoneyCloud:
    """A cloud that has one organization, and nothing but its money."""

    cents: dict[str, int] = field(default_factory=dict)
    """Of the month, by the names of what it was used for; the ids are made of them."""
    available: int | None = 10**6
    """What is left; None if the key may not read it."""
    floor: int | None = None
    """What it says must be left."""
    transactions: int = 0
    """How many it tells of with the balance."""
    breakdown: JsonValue = None
    """What it answers as the breakdown of the usage, if not a line for each of `cents`."""
    asked: list[str] = field(default_factory=list)
    name: str | None = None
    """What it calls the organization."""
    scopes: list[str] = field(default_factory=list)
    """What it says that the key may do."""
    url: str = ""
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it answers."""
    unserved: tuple[str, ...] = ()
    """Paths' last parts for which a router answers that it does not know them."""
    changed: list[str] = field(default_factory=list)
    """Of `asked`, what was not only read."""
    failing: tuple[str, ...] = ()
    """Paths' last parts for which the cloud answers that it cannot."""
    refusing: tuple[str, ...] = ()
    """Paths' last parts for which the cloud refuses the key."""
    on_read: Callable[[str], None] = lambda _: None
    """Called before each answer to a GET, with the path's last part."""
    limited: dict[str, int] = field(default_factory=dict)
    """Retry-After by path's last part, for which the cloud limits the rate."""

    def _trouble(self, asked: str) -> web.Response | None:
        if asked in self.unserved:
            return web.json_response({"detail": "Not Found"}, status=404)
        if asked in self.refusing:
            return web.json_response({"error": "no such key"}, status=401)
        if asked in self.failing:
            return web.json_response({"error": "it cannot"}, status=503)
        if asked in self.limited:
            advised = {"Retry-After": str(self.limited[asked])}
            return web.json_response({"error": "slow down"}, status=429, headers=advised)
        return None

    async def answer(self, request: web.Request) -> web.Response:
        used = sum(self.cents.values())
        lines = [{"resourceId": f"id-{name}", "name": name, "cents": cents} for name, cents in self.cents.items()]
        self.asked.append(request.path.rpartition("/")[2])
        if request.method != "GET":
            self.changed.append(self.asked[-1])
        else:
            self.on_read(self.asked[-1])
        await self.answers.wait()
        trouble = self._trouble(self.asked[-1])
        if trouble is not None:
            return trouble
        match self.asked[-1]:
            case "whoami":
                known = {"principalType": "api_key", "organizationId": "org-1"}
                return web.json_response({**known, "organizationName": self.name, "scopes": self.scopes})
            case "balance" if self.available is None:
                return web.json_response({"error": {"message": "no billing:read"}}, status=403)
            case "balance":
                paid = [{"id": f"tx-{number}", "amountCents": 1} for number in range(self.transactions)]
                left = {"balanceCents": 10**6, "availableCents": self.available, "accruedUsageCents": 0}
                return web.json_response({**left, "currentMonthUsageCents": used, "transactions": paid})
            case "usage" if self.breakdown is not None:
                told = {"usageCents": used, "usageHours": 1.0, "burnPerHourCents": 249}
                return web.json_response({**told, "breakdown": self.breakdown})
            case "usage":
                told = {"usageCents": used, "usageHours": 1.0}
                return web.json_response({**told, "breakdown": lines, "autoStopFloorCents": self.floor})
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
    watched: tuple[str, ...] = ()
    """The namespaces that it watches; all if it names none."""

    def begin(self) -> None:
        """A process that knows what the watch told of the account."""
        world, self.metrics, self.departed = self.world, Metrics(CollectorRegistry()), Departed()
        engine, cache = world.reconciler.engine, world.cache
        cache.on_left = lambda key, entry: self.departed.note(key, entry, cache.account_meant(key, entry))
        settings = Settings(
            namespace=OPERATOR_NAMESPACE,
            allowed_base_urls=(self.cloud.url,),
            webhook_public_url=self.public_url,
            watch_namespaces=self.watched,
            poll_jitter=0,
        )
        clock = world.clock.monotonic
        self.accounts = Accounts(settings, world.kube, cache, world.queue, ConnectionPool(), frozenset(), clock)
        sweeper = Sweeper(engine, {}, True, lambda _kind: None, self.accounts.organization_of)
        bookkeeper = Bookkeeper(engine, self.departed, OPERATOR_NAMESPACE)
        actor = Actor(engine, settings, self.accounts, self.metrics, sweeper, bookkeeper, world.budgets)
        self.flow = AccountFlow(CLOUD_ACCOUNT, CloudAccount, {"GpuPod": "gpupods"}, actor)
        self.controller = Controller(engine, self.flow)
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

    def ask(self, when: str) -> None:
        """A person sets the annotation `reconcile-at`."""
        asked: dict[str, JsonValue] = {"metadata": {"annotations": {RECONCILE_AT: when}}}
        self.world.cache.put(KEY, self.world.server.edit("cloudaccounts", NAMESPACE, "default", asked))

    def sweeps(self) -> int:
        memory = self.controller.memories.get(KEY)
        return 0 if memory is None else memory.sweep.sweeps

    def conditions(self) -> set[str]:
        """The types of those that are true."""
        return {one.type for one in self.status().conditions if one.status == "True"}

    def condition(self, kind: str) -> tuple[str, str]:
        """The condition's status and message."""
        return next((one.status, one.message) for one in self.status().conditions if one.type == kind)

    async def woken(self) -> set[ObjectKey]:
        """The objects that are to have a pass now."""
        keys = set[ObjectKey]()
        while (taken := await self._due()) is not None:
            keys.add(taken.key)
            self.world.queue.done(taken.key)
        return keys

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
