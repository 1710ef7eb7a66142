"""Schedules over a small API server, with a clock that only tests move."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import aiohttp
from pydantic import JsonValue

from relay_kube.kube import ApiAccess, Kube
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import Backoff, PollIntervals, RetryPolicy
from relay_operator.engine.cache import Cache
from relay_operator.engine.controller import Controller
from relay_operator.engine.engine import Engine
from relay_operator.engine.events import Recorder
from relay_operator.engine.informer import Informer
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.vanished import Vanished
from relay_operator.flows.schedule.flow import ScheduleFlow
from tests.unit.engine.apiserver import ApiServer, Json
from tests.unit.flows.managed.world import Clock

KINDS = {"inferencebatchschedules": "InferenceBatchSchedule", "inferencebatches": "InferenceBatch"}
NAMESPACE = "team-a"
KEY = ObjectKey("InferenceBatchSchedule", NAMESPACE, "nightly")


@dataclass
class Stage:
    """One process of the operator, as far as schedules go. It is 12:00 on 1 March 2026."""

    clock: Clock
    server: ApiServer
    kube: Kube
    passes: list[Pass] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.wall: Callable[[], datetime] = self.clock.wall
        self.leads = True
        self.server.on_change = self._tell
        self.restart()

    def restart(self) -> None:
        """A process that remembers nothing, and has read every list."""
        self.queue = Queue[ObjectKey](self.clock.monotonic)
        self.cache = Cache(on_owned=lambda owner: self.queue.add(owner, Priority.CHANGE))
        vanished = Vanished(self.kube, "relay-system", self.cache, self.queue, self.now, frozenset({"GpuPod"}))
        self.informer = Informer(self.cache, self.queue, vanished, lambda: 0.5, 300.0)
        self.recorder = Recorder(self.kube, "test", self.clock.wall)
        engine = Engine(
            kube=self.kube,
            cache=self.cache,
            queue=self.queue,
            recorder=self.recorder,
            vanished=vanished,
            retry_policy=RetryPolicy(Backoff(1.0, 300.0), lambda: 0.5),
            intervals=PollIntervals(transition=5.0, settled=300.0, jitter=0.0),
            wall_clock=self.now,
            on_pass=self.passes.append,
            clock=self.clock.monotonic,
            sleep=self.clock.sleep,
        )
        self.reconciler = Controller(engine, ScheduleFlow(engine, lambda: self.leads))
        for (plural, _, _), raw in self.server.objects.items():
            if plural in KINDS:
                self.informer.seen(KINDS[plural], raw)

    def now(self) -> datetime:
        return self.wall()

    def _tell(self, event: str, raw: Json) -> None:
        kind = str(raw.get("kind"))
        if kind in KINDS.values():
            (self.informer.gone if event == "DELETED" else self.informer.seen)(kind, raw)

    def apply(self, **spec: JsonValue) -> None:
        """What `kubectl apply` of a new schedule does; every minute, unless told otherwise."""
        template: JsonValue = {"spec": {"model": "m"}}
        known: Json = {"schedule": "* * * * *", "batchTemplate": template}
        metadata: Json = {"name": KEY.name, "namespace": NAMESPACE}
        self.server.put("inferencebatchschedules", {"kind": KEY.kind, "metadata": metadata, "spec": known | spec})

    def change(self, **spec: JsonValue) -> None:
        self.server.edit("inferencebatchschedules", NAMESPACE, KEY.name, {"spec": spec})

    def finish(self, name: str) -> None:
        """A batch is Complete."""
        one: Json = {"type": "Complete", "status": "True", "lastTransitionTime": "2026-03-01T12:00:00Z"}
        self.server.edit("inferencebatches", NAMESPACE, name, {"status": {"conditions": [one]}}, status=True)

    @property
    def batches(self) -> list[str]:
        return sorted(name for plural, _, name in self.server.objects if plural == "inferencebatches")

    @property
    def status(self) -> Json:
        status = self.server.objects["inferencebatchschedules", NAMESPACE, KEY.name].get("status")
        assert isinstance(status, dict)
        return status

    @property
    def creates(self) -> int:
        """How often a batch was asked for."""
        return self.server.writes.count("POST inferencebatches")

    def notes(self) -> list[str]:
        """The reasons of the Events since the last call."""
        waiting = self.recorder._waiting
        return [waiting.get_nowait()[2].reason for _ in range(waiting.qsize())]

    async def settle(self) -> None:
        """All passes that are due at this moment; of batches, nothing is done."""
        for _ in range(60):
            try:
                async with asyncio.timeout(0):
                    taken = await self.queue.take()
            except TimeoutError:
                return
            try:
                if taken.key.kind == KEY.kind:
                    await self.reconciler.reconcile(taken)
            finally:
                self.queue.done(taken.key)
        raise AssertionError(f"a busy loop: {self.passes[-3:]}")

    async def wait(self, seconds: float, step: float = 1.0) -> None:
        """Time passes, and whatever comes due is done."""
        until = self.clock.seconds + seconds
        await self.settle()
        while self.clock.seconds < until:
            self.clock.seconds = min(self.clock.seconds + step, until)
            await self.settle()


@asynccontextmanager
async def running_stage() -> AsyncIterator[Stage]:
    """A stage whose API server listens."""
    clock = Clock()
    server = ApiServer(now=clock.wall)
    server.put("namespaces", {"metadata": {"name": NAMESPACE}})
    runner = await server.start()
    session = aiohttp.ClientSession()
    try:
        yield Stage(clock, server, Kube(ApiAccess(server.url, session), sleep=clock.sleep))
    finally:
        await session.close()
        await runner.cleanup()
