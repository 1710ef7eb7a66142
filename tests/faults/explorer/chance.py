"""Random histories; the same seed gives the same history."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Final

from tests.faults.explorer.history import ACCOUNTS, CLUSTERS, PODS, Act, Do, History
from tests.faults.perturbations import OF_CREATES, PERTURBATIONS, Asks
from tests.faults.scenarios import CLUSTER, POD
from tests.support.faultrules import Call, Hang, Hold, Rule, Side

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_CALLS: Final = (0, 1, 2, 4, 12)
_MOST_FAULTS: Final = 3
"""The most consecutive calls that one fault meets."""
# The weight of each act; a settling takes seconds.
_OFTEN: Final[Mapping[Do, int]] = {
    Do.APPLY: 20,
    Do.DELETE: 7,
    Do.FORCE_AWAY: 5,
    Do.ABANDON: 2,
    Do.RENAME: 3,
    Do.COPY: 4,
    Do.SCALE: 4,
    Do.RECREATE: 4,
    Do.STOP: 3,
    Do.START: 3,
    Do.PAUSE: 2,
    Do.UNPAUSE: 2,
    Do.ADOPT: 4,
    Do.MOVE: 3,
    Do.BACK_UP: 4,
    Do.RESTORE: 14,
    Do.KILL: 5,
    Do.FREEZE: 3,
    Do.THAW: 3,
    Do.FAULT: 24,
    Do.LOSE_WEBHOOKS: 3,
    Do.CLOCK: 3,
    Do.FUNDS_GO: 1,
    Do.FUNDS_COME: 2,
    Do.NODE_LOST: 2,
    Do.NODES_BACK: 2,
    Do.SETTLE: 5,
}
# Acts that need an object that exists.
_TO_WHAT_IS_THERE: Final = frozenset(
    {Do.DELETE, Do.FORCE_AWAY, Do.ABANDON, Do.RENAME, Do.COPY, Do.SCALE, Do.RECREATE, Do.STOP, Do.START}
    | {Do.PAUSE, Do.UNPAUSE, Do.MOVE, Do.BACK_UP, Do.NODE_LOST}
)
# The possible values of `number`.
_NUMBERS: Final[Mapping[Do, Sequence[int]]] = {
    Do.KILL: (0, 1),
    Do.FREEZE: (0, 1),
    Do.CLOCK: (20, 300, 3600),
    Do.LOSE_WEBHOOKS: (1, 2, 3, 4, 5, 6),
    Do.SCALE: (1, 2, 3),
    Do.RECREATE: (1, 2),
    Do.ADOPT: (0, 1, 2, 3, 4, 5),
    Do.RESTORE: (0, 1),
}
_TAKES_AWAY: Final = frozenset({Do.DELETE, Do.FORCE_AWAY, Do.ABANDON, Do.RENAME})
_BRINGS: Final = frozenset({Do.APPLY, Do.ADOPT, Do.RESTORE})
_CREATES: Final = (POD.create, CLUSTER.create)
# The operations that faults meet; creates more often than others.
_OPERATIONS: Final[Mapping[Side, Sequence[str]]] = {
    Side.CLOUD: (
        *_CREATES * 3,
        "POST /v1/vms/{id}/terminate",
        "POST /v1/clusters/{id}/terminate",
        "POST /v1/*",
        "GET /v1/vms/{id}",
        "GET /v1/clusters/{id}/detail",
        "GET /v1/orgs/{id}/clusters",
        "GET /v1/orgs/{id}/billing/usage",
        "GET /v1/*",
    ),
    Side.KUBE: (
        "PATCH gpu*",
        "PATCH gpupods",
        "PATCH gpuclusters",
        "PATCH gpu*/status",
        "PATCH *",
        "POST configmaps",
        "DELETE configmaps",
        "LIST *",
        "GET gpu*",
        "GET secrets",
    ),
}


def by_chance(seed: int, acts: int) -> History:
    """Returns the history of a seed, with so many acts."""
    random = Random(seed)
    there: set[str] = set()
    backups: set[str] = set()
    chosen: list[Act] = []
    while len(chosen) < acts:
        act = _one(random, there, backups)
        if act is not None:
            chosen.append(act)
            _follow(act, there, backups)
    return History(str(seed), tuple(chosen))


def _one(random: Random, there: set[str], backups: set[str]) -> Act | None:
    """Returns a random act; None if the one that was drawn is not possible."""
    do = random.choices(list(_OFTEN), list(_OFTEN.values()))[0]
    act = Act(do, calls=0 if do is Do.SETTLE else random.choice(_CALLS))
    names = _names(do, there, backups)
    if names is not None:
        return _with_an_object(random, replace(act, object=random.choice(sorted(names))), there) if names else None
    if do is Do.FAULT:
        return replace(act, rule=_fault(random))
    return replace(act, number=random.choice(_NUMBERS.get(do, (0,))))


def _with_an_object(random: Random, act: Act, there: set[str]) -> Act | None:
    """Returns the act with its other fields; None if it is not possible for this object."""
    if act.do is Do.SCALE and act.object in PODS:
        return None
    act = replace(act, number=random.choice(_NUMBERS.get(act.do, (0,))))
    if act.do in {Do.MOVE, Do.APPLY}:
        return replace(act, other=random.choice(ACCOUNTS))
    if act.do in {Do.RENAME, Do.COPY}:
        free = [one for one in (PODS if act.object in PODS else CLUSTERS) if one not in there]
        return replace(act, other=random.choice(free)) if free else None
    return act


def _names(do: Do, there: set[str], backups: set[str]) -> set[str] | None:
    """Returns the objects to which the act may be done; None if it is not about an object."""
    if do in _TO_WHAT_IS_THERE:
        return there
    if do is Do.RESTORE:
        return backups - there
    return {*PODS, *CLUSTERS} - there if do in _BRINGS else None


def _fault(random: Random) -> Rule:
    """Returns a random fault of the table, except Hang, which would last longer than any test waits."""
    side = random.choice((Side.CLOUD, Side.CLOUD, Side.KUBE))
    operation = random.choice(_OPERATIONS[side])
    asks = Asks.by(Call(side, operation))
    table = {**PERTURBATIONS[side][asks], **(OF_CREATES if operation in _CREATES else {})}
    actions = {name: one for name, one in table.items() if not isinstance(one, Hang)}
    action = actions[random.choice(sorted(actions))]
    times = 1 if isinstance(action, Hold) else random.randint(1, _MOST_FAULTS)
    return Rule(side, operation, action, nth=random.randint(1, 2), times=times)


def _follow(act: Act, there: set[str], backups: set[str]) -> None:
    """Updates the existing objects and backups as if the act succeeds."""
    if act.do in _TAKES_AWAY:
        there.discard(act.object)
    if act.do in _BRINGS:
        there.add(act.object)
    if act.do in {Do.RENAME, Do.COPY}:
        there.add(act.other)
    if act.do is Do.BACK_UP:
        backups.add(act.object)
