"""A replica that stands by: how long it may take to find out whether it could lead, and how it is stopped."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from pydantic import JsonValue

from relay_kube.kube import REQUEST_TIMEOUT, JsonObject, NotFound, ResourceType
from relay_operator.app import _FIRST_LIST_BACKOFF, App, _longest_silence
from relay_operator.kinds import KINDS
from relay_operator.leader.election import Election, LeaseTimes
from relay_operator.leader.label import LeaderLabel
from relay_operator.observability.health import Heartbeat
from relay_operator.observability.metrics import process_metrics
from relay_operator.settings import Settings

NAMESPACES = tuple(f"team-{number}" for number in range(50))
LONGEST = 60.0


class _SlowKube:
    """Each look takes half as long as the replica may be silent."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pulse = Heartbeat(LONGEST, lambda: self.now)
        self.silences: set[str | None] = set()

    async def look(self, _kind: ResourceType, _namespace: str | None) -> None:
        self.now += LONGEST / 2
        self.silences.add(self.pulse.silence())


async def test_a_replica_of_many_namespaces_shows_that_it_lives_while_it_looks_at_them() -> None:
    kube = _SlowKube()
    parts = SimpleNamespace(settings=Settings(watch_namespaces=NAMESPACES), engine=SimpleNamespace(kube=kube))
    unused = [cast("Any", None)] * 7
    informer, workers, receiver, election, label, collector, catalog = unused
    app = App(cast("Any", parts), KINDS, informer, workers, receiver, election, kube.pulse, label, collector, catalog)
    assert await app._obstacle() is None
    assert kube.now > LONGEST * len(NAMESPACES)
    assert kube.silences == {None}


@pytest.mark.parametrize("duration", [1.0, 2.0, 15.0, 600.0])
def test_a_replica_that_waits_before_it_lists_again_is_not_taken_for_hung_however_short_its_lease_is(
    duration: float,
) -> None:
    longest = _longest_silence(
        Settings(
            lease_duration_seconds=duration,
            lease_renew_deadline_seconds=duration / 2,
            lease_retry_seconds=duration / 4,
        )
    )
    assert longest > _FIRST_LIST_BACKOFF.limit + REQUEST_TIMEOUT
    assert longest >= 4 * duration


@dataclass
class _MuteKube:
    """Stores the Lease, and never answers for its creation."""

    lease: JsonObject | None = None
    created: asyncio.Event = field(default_factory=asyncio.Event)

    async def get(self, _kind: ResourceType, _namespace: str | None, _name: str) -> JsonObject:
        if self.lease is None:
            raise NotFound(404, "NotFound", "no lease")
        return self.lease

    async def create(self, _kind: ResourceType, _namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        self.lease = {**body, "metadata": {"resourceVersion": "1"}}
        self.created.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def patch(
        self, _kind: ResourceType, _namespace: str | None, _name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject:
        assert self.lease is not None
        self.lease = {**self.lease, "spec": body["spec"]}
        return self.lease


async def test_a_replica_told_to_stop_before_it_knows_that_it_holds_the_lease_releases_it() -> None:
    async def close() -> None:
        pass

    kube, stop = _MuteKube(), asyncio.Event()
    parts = SimpleNamespace(
        settings=Settings(metrics_listen=cast("Any", "127.0.0.1:0"), webhook_listen=cast("Any", "127.0.0.1:0")),
        metrics=process_metrics("1", ()),
        accounts=SimpleNamespace(close=close),
        stores=nullcontext(),
    )
    unused: Any = None
    receiver: Any = SimpleNamespace(app=web.Application)
    election = Election(kube, "relay-system", "relay-operator", "a", LeaseTimes(15, 10, 2))
    label = LeaderLabel(cast("Any", kube), "relay-system", None)
    pulse = Heartbeat(LONGEST, asyncio.get_running_loop().time)
    app = App(cast("Any", parts), (), unused, unused, receiver, election, pulse, label, unused, unused)
    app.unseen = None
    async with AsyncExitStack() as stack:
        serving = asyncio.create_task(app.serve(stop, stack))
        await kube.created.wait()
        stop.set()
        await serving
    assert kube.lease is not None
    assert kube.lease["spec"] == {"holderIdentity": None, "leaseDurationSeconds": 1}
