"""A replica that stands by: how long it may take to find out whether it could lead, and how it is stopped."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web
from pydantic import JsonValue

from relay_kube.errors import NotFound, Refused
from relay_kube.kube import REQUEST_TIMEOUT, JsonObject, ResourceType
from relay_operator.app import _FIRST_LIST_BACKOFF, App, _longest_silence
from relay_operator.engine.cache import Cache
from relay_operator.engine.informer import Informer
from relay_operator.engine.installed import Installed
from relay_operator.engine.served import ServedKinds
from relay_operator.kinds import KINDS
from relay_operator.leader.election import Election, LeaseTimes
from relay_operator.leader.label import LeaderLabel
from relay_operator.observability.health import Heartbeat
from relay_operator.observability.metrics import process_metrics
from relay_operator.settings import Settings
from tests.support.eventually import eventually

NAMESPACES = tuple(f"team-{number}" for number in range(50))
LONGEST = 60.0


class _SlowKube:
    """Each look takes half as long as the replica may be silent."""

    def __init__(self, *absent: str) -> None:
        self.plurals = {kind.definition.plural for kind in KINDS} - {*absent}
        self.looks: list[str] = []
        self.now = 0.0
        self.pulse = Heartbeat(LONGEST, lambda: self.now)
        self.silences: set[str | None] = set()

    async def served(self, _group: str, _version: str) -> frozenset[str]:
        return frozenset(self.plurals)

    async def openapi(self, _group: str, _version: str) -> JsonObject:
        raise NotFound(404, "NotFound", "no schemas")

    async def look(self, kind: ResourceType, _namespace: str | None) -> None:
        self.looks.append(kind.plural)
        self.now += LONGEST / 2
        self.silences.add(self.pulse.silence())


async def test_a_replica_of_many_namespaces_shows_that_it_lives_while_it_looks_at_them() -> None:
    kube = _SlowKube()
    assert await _app(kube, watch_namespaces=NAMESPACES)._obstacle() is None
    assert kube.now > LONGEST * len(NAMESPACES)
    assert kube.silences == {None}


async def test_a_replica_that_lacks_a_crd_could_lead_and_is_not_ready_until_it_is_there() -> None:
    kube = _SlowKube("gpuvms", "toys")
    app = _app(kube, poll_transition_seconds=0.01)
    app.unseen = await app._obstacle()
    assert "gpuvms" not in kube.looks
    assert app._not_ready() == "the API server lacks gpuvms: apply the CRDs"

    async def not_ready() -> str | None:
        return app._not_ready()

    kube.plurals.add("gpuvms")
    following = asyncio.create_task(app._follow_absent())
    await eventually(not_ready, lambda reason: reason is None, every=0.01)
    following.cancel()


async def test_a_replica_without_any_crd_cannot_lead() -> None:
    kube = _SlowKube()
    kube.plurals.clear()
    assert await _app(kube)._obstacle() == "the CRDs cannot be found: NotFound: the API server has none of them"


class _Patience(Exception):
    """Enough was waited for."""


async def test_a_replica_that_waits_for_the_crds_shows_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = _SlowKube()
    kube.plurals.clear()
    app, silences = _app(kube), set[str | None]()

    async def pass_time(seconds: float) -> None:
        kube.now += seconds
        silences.add(kube.pulse.silence())
        if kube.now > 3 * LONGEST:
            raise _Patience

    async def put(*, leading: bool, on_try: Callable[[], None]) -> None:
        assert not leading
        on_try()

    app.label = cast("Any", SimpleNamespace(put=put))
    monkeypatch.setattr("relay_operator.app.asyncio", SimpleNamespace(sleep=pass_time))
    with pytest.raises(_Patience):
        await app._stand_by()
    assert silences == {None}


class _Lists:
    """An informer that may not list VMs; notes what else it lists or loads."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.vanished = self

    async def relist(self, _kube: object, kind: str, *_: object) -> None:
        if kind == "GpuVm":
            raise Refused(403, "Forbidden", "no VMs")
        self.done.append(kind)

    async def load(self) -> None:
        self.done.append("what others left")


@pytest.mark.parametrize("synced", [True, False])
async def test_a_kind_that_cannot_be_listed_keeps_no_other_from_being_repaired(*, synced: bool) -> None:
    """But before the first list is whole, nothing is begun."""
    app, lists = _app(_SlowKube()), _Lists()
    app.informer = cast("Informer", lists)
    if synced:
        app.synced.set()
    with pytest.raises(Refused, match="no VMs"):
        await app._relist()
    others = [kind.name for kind in KINDS if kind.name != "GpuVm"]
    assert lists.done == [*others, *(["what others left"] if synced else [])]


def _app(kube: _SlowKube, **settings: Any) -> App:
    engine = SimpleNamespace(kube=kube, cache=Cache(), queue=None, served=ServedKinds())
    parts: Any = SimpleNamespace(settings=Settings(**settings), engine=engine)
    election: Any = SimpleNamespace(unfit=lambda: None)
    unused: Any = None
    installed = Installed(cast("Any", kube), [kind.definition.plural for kind in KINDS])
    return App(parts, KINDS, unused, unused, unused, election, kube.pulse, unused, unused, unused, installed)


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
    installed = Installed(cast("Any", kube), [])
    app = App(cast("Any", parts), (), unused, unused, receiver, election, pulse, label, unused, unused, installed)
    app.unseen = None
    async with AsyncExitStack() as stack:
        serving = asyncio.create_task(app.serve(stop, stack))
        await kube.created.wait()
        stop.set()
        await serving
    assert kube.lease is not None
    assert kube.lease["spec"] == {"holderIdentity": None, "leaseDurationSeconds": 1}
