"""A replica that stands by: how long it may take to find out whether it could lead."""

from types import SimpleNamespace
from typing import Any, cast

from relay_kube.kube import ResourceType
from relay_operator.app import App
from relay_operator.kinds import KINDS
from relay_operator.observability.health import Heartbeat
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
