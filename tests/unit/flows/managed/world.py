"""The whole engine over a small API server and a cloud in memory, with a clock that only tests move."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import aiohttp
from pydantic import JsonValue, ValidationError

from relay_client import Cloud, CloudError
from relay_kube.kube import ApiAccess, Kube
from relay_operator.api import meta
from relay_operator.api.conditions import Condition, ConditionType
from relay_operator.api.meta import ObjectKey
from relay_operator.budgets.budgets import Budgets
from relay_operator.budgets.prices import Prices, Pricing
from relay_operator.engine.account import AccountReady
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.controller import Controller
from relay_operator.engine.engine import Engine
from relay_operator.engine.events import Recorder
from relay_operator.engine.identity import Installation
from relay_operator.engine.informer import Informer
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.engine.vanished import Vanished
from relay_operator.flows.managed.act import Actor
from relay_operator.flows.managed.connection import ConnectionWriter
from relay_operator.flows.managed.flow import ManagedFlow
from relay_operator.flows.managed.funding import Funding
from relay_operator.flows.managed.gather import Gatherer
from relay_operator.flows.managed.inputs import InputReader
from relay_operator.flows.managed.shown_once import ValueKeeper
from relay_operator.kinds.gpupod import GpuPod, GpuPodStatus
from tests.unit.engine.apiserver import ApiServer, Call, Json, part
from tests.unit.flows.managed.cloudpods import MemoryPods, OneAccount, Pods

BEGINNING = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMESPACE = "team-a"
OPERATOR_NAMESPACE = "relay-system"
BUSY = 60
"""Passes without a pause that no object ever needs."""


@dataclass
class Clock:
    """Seconds since the beginning; sleeping moves it."""

    seconds: float = 0.0
    ahead: float = 0.0
    """Seconds by which somebody moved the wall clock forward; negative: back."""

    def monotonic(self) -> float:
        return self.seconds

    def wall(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.seconds + self.ahead)

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)


@dataclass
class Catalog(Pricing):
    """Prices that only tests change."""

    prices: Prices
    failure: CloudError | None = None
    asked: int = 0

    async def of(self, cloud: Cloud) -> Prices:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        return self.prices


@dataclass
class World:
    """What outlives a restart, and one process of the operator."""

    clock: Clock
    server: ApiServer
    kube: Kube
    pods: Pods
    account: OneAccount
    leading: bool = True
    watching: bool = True
    """Whether the watch tells of changes."""
    passes: list[Pass] = field(default_factory=list)
    disabled: bool = False
    """Whether the next process has the kind switched off."""
    random: Callable[[], float] = lambda: 0.5
    kind: Callable[[Pods], MemoryPods] = MemoryPods
    model: type[GpuPod] = GpuPod
    installation: str = "c0ffe"
    pricing: "Catalog" = field(default_factory=lambda: Catalog(Prices({"h100": 200, "b200": 500}, {})))
    _tokens: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.server.on_change = self._tell
        self.assemble()

    def assemble(self) -> None:
        """A process that remembers nothing."""
        clock, kube = self.clock, self.kube
        self.resource = self.kind(self.pods)
        self.queue = Queue[ObjectKey](clock.monotonic)
        self.cache = Cache(on_shared=lambda key: self.queue.add(key, Priority.CHANGE))
        self.cache.installation = Installation(self.installation)
        self.cache.priced = frozenset({"GpuPod"})
        self.budgets = Budgets(self.cache, self.queue)
        vanished = Vanished(kube, OPERATOR_NAMESPACE, self.cache, self.queue, clock.wall, frozenset({"GpuPod"}))
        self.informer = Informer(self.cache, self.queue, vanished, self.random, 300.0)
        self.recorder = Recorder(kube, "test", clock.wall)
        policy = RetryPolicy(Backoff(1.0, 300.0), self.random)
        engine = Engine(
            kube=kube,
            cache=self.cache,
            queue=self.queue,
            recorder=self.recorder,
            vanished=vanished,
            retry_policy=policy,
            intervals=PollIntervals(transition=5.0, settled=300.0, jitter=0.2),
            wall_clock=clock.wall,
            on_pass=self.passes.append,
            clock=clock.monotonic,
            sleep=clock.sleep,
        )
        self.flow = ManagedFlow(
            resource=self.resource,
            accounts=self.account,
            gatherer=Gatherer(
                self.resource,
                self.account,
                self.cache,
                InputReader(kube),
                ValueKeeper(kube),
                Funding(self.resource, self.account, self.budgets, self.pricing),
                clock.monotonic,
                ConfirmationDelays(),
                engine.installation,
                policy.longest,
                disabled=self.disabled,
            ),
            actor=Actor(
                self.resource,
                self.account,
                clock.monotonic,
                lambda: f"token-{next(self._tokens)}",
                engine.installation,
                lambda: self.leading,
                self.cache,
                self.budgets,
            ),
            connections=ConnectionWriter(kube, lambda: self.leading),
            retry_policy=policy,
            installation=engine.installation,
            unreachable_after=3,
        )
        self.reconciler = Controller(engine, self.flow)

    async def restart(self) -> None:
        """The process dies, and another lists everything."""
        self.assemble()
        await self.informer.relist(self.kube, self.named, self.flow.type, ())
        await self.informer.vanished.load()

    @property
    def named(self) -> str:
        """The kind of the objects."""
        return self.resource.definition.kind

    @property
    def plural(self) -> str:
        """As the API has it in paths."""
        return self.resource.definition.plural

    def _tell(self, event: str, raw: Json) -> None:
        if self.watching and raw.get("kind") == self.named:
            (self.informer.gone if event == "DELETED" else self.informer.seen)(self.named, raw)

    def apply(self, name: str = "train", **spec: JsonValue) -> ObjectKey:
        """What `kubectl apply` of a new GpuPod does; `annotations`, and fields of the spec in camelCase."""
        noted = spec.pop("annotations", {})
        self.server.put(
            self.plural,
            {
                "apiVersion": meta.API_VERSION,
                "kind": self.named,
                "metadata": {"name": name, "namespace": NAMESPACE, "annotations": noted},
                "spec": {"image": "pytorch/pytorch", **spec},
                "status": {"observedGeneration": -1},
            },
        )
        return ObjectKey(self.named, NAMESPACE, name)

    def annotate(self, name: str = "train", **annotations: str | None) -> None:
        """Annotations of ours, underscores for hyphens."""
        values: dict[str, JsonValue] = {
            f"{meta.ANNOTATION_PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()
        }
        self.server.edit(self.plural, NAMESPACE, name, {"metadata": {"annotations": values}})

    def change(self, name: str = "train", **spec: JsonValue) -> None:
        """Changes fields of the spec."""
        self.server.edit(self.plural, NAMESPACE, name, {"spec": spec})

    def delete(self, name: str = "train", *, force: bool = False) -> None:
        """`kubectl delete`; forced as people do it, by taking the finalizer away."""
        self.server.remove(self.plural, NAMESPACE, name, force=force)

    def vanish(self, name: str = "train") -> None:
        """`kubectl delete` in the very moment in which the finalizer is written: nothing holds the object."""
        self.server.vanish(self.plural, NAMESPACE, name)

    def left_behind(self) -> list[Json]:
        """The ConfigMaps of what vanished."""
        return [raw for (plural, _, _), raw in self.server.objects.items() if plural == "configmaps"]

    def raw(self, name: str = "train") -> Json:
        return self.server.objects[self.plural, NAMESPACE, name]

    def exists(self, name: str = "train") -> bool:
        return (self.plural, NAMESPACE, name) in self.server.objects

    def obj(self, name: str = "train") -> GpuPod:
        return self.model.model_validate(self.raw(name))

    def status(self, name: str = "train") -> GpuPodStatus:
        return self.obj(name).status

    def condition(self, type_: ConditionType = ConditionType.READY, name: str = "train") -> Condition | None:
        return next((item for item in self.status(name).conditions if item.type == type_), None)

    def reason(self, name: str = "train") -> str:
        """Of the Ready condition."""
        ready = self.condition(name=name)
        return "" if ready is None else ready.reason

    def message(self, name: str = "train") -> str:
        """Of the Ready condition."""
        ready = self.condition(name=name)
        assert ready is not None
        return ready.message

    def stalled(self, name: str = "train") -> str:
        """Reason and message of the Stalled condition; empty without one."""
        told = self.condition(ConditionType.STALLED, name)
        return "" if told is None else f"{told.reason}: {told.message}"

    def intent(self, name: str = "train") -> meta.CreateIntent | meta.MalformedIntent | None:
        annotations = part(part(self.raw(name), "metadata"), "annotations")
        text = annotations.get(meta.CREATE_INTENT)
        return meta.CreateIntent.parse(text if isinstance(text, str) else None)

    def readable_intent(self, name: str = "train") -> meta.CreateIntent:
        """The intent, which is there and can be read."""
        intent = self.intent(name)
        assert isinstance(intent, meta.CreateIntent)
        return intent

    def hint(self, name: str = "train") -> None:
        """A webhook names the object's resource."""
        self.queue.add(ObjectKey(self.named, NAMESPACE, name), Priority.EVENT)

    async def one_pass(self) -> Taken[ObjectKey] | None:
        """The next pass, if one is due."""
        try:
            async with asyncio.timeout(0):
                taken = await self.queue.take()
        except TimeoutError:
            return None
        try:
            await self.reconciler.reconcile(taken)
        finally:
            self.queue.done(taken.key)
        return taken

    async def settle(self) -> None:
        """All passes that are due at this moment."""
        for _ in range(BUSY):
            if await self.one_pass() is None:
                return
        raise AssertionError(f"a busy loop: {self.passes[-3:]}")

    async def wait(self, seconds: float, step: float = 1.0) -> None:
        """Time passes, and whatever comes due is done."""
        until = self.clock.seconds + seconds
        await self.settle()
        while self.clock.seconds < until:
            self.clock.seconds = min(self.clock.seconds + step, until)
            await self.settle()


def pod_problem(raw: Json) -> str | None:
    """What the CRD would refuse."""
    if raw.get("kind") != "GpuPod":
        return None
    try:
        GpuPod.model_validate(raw)
    except ValidationError as invalid:
        return str(invalid)
    return None


@asynccontextmanager
async def running_world() -> AsyncIterator[World]:
    """A world whose API server listens."""
    clock = Clock()
    server = ApiServer(now=clock.wall, validate=pod_problem)
    for namespace in (NAMESPACE, OPERATOR_NAMESPACE, "default"):
        server.put("namespaces", {"metadata": {"name": namespace}})
    runner = await server.start()
    session = aiohttp.ClientSession()
    cloud = Cloud("https://cloud.example", "or_test_key", organization_id="org-1")
    ready = AccountReady(ObjectKey("CloudAccount", NAMESPACE, "default"), cloud, "org-1", UnclaimedIds(), False, True)
    try:
        yield World(
            clock,
            server,
            Kube(ApiAccess(server.url, session), sleep=clock.sleep),
            Pods(),
            OneAccount(ready, clock=clock.monotonic),
        )
    finally:
        await cloud.aclose()
        await session.close()
        await runner.cleanup()


async def many(world: World, names: list[str]) -> None:
    """Applies several, and waits until they are settled."""
    for name in names:
        world.apply(name)
    await world.wait(10)


def fixed_random(seed: int) -> Callable[[], float]:
    """The same chances every time."""
    return random.Random(seed).random


def at_the_status_write(world: World, happens: object) -> None:
    """Somebody does something just before the id arrives."""

    def before(call: Call) -> None:
        if call.status_write:
            world.server.before = lambda _: None
            assert callable(happens)
            happens()

    world.server.before = before
