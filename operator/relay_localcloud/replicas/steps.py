"""Decides which replicas a cluster or deployment drains, and how many it places. Pure.

Surplus replicas are drained; a deployment that a green one replaces by a rolling rollout drains as many at a time as
the green's `maxUnavailable`. Outdated replicas are replaced so that at most `maxUnavailable` of those wanted are not
healthy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relay_localcloud.replicas.states import ReplicaState


@dataclass(frozen=True, slots=True)
class Member:
    """A live replica; `is_overdue` if another one is to take its place, since it cannot run on its node."""

    id: str
    state: ReplicaState
    is_outdated: bool = False
    is_overdue: bool = False


@dataclass(frozen=True, slots=True)
class Intent:
    """What is wanted of a group; with `leaving`, it drains all its replicas, at most that many at a time.

    `generation` counts changes of what its replicas run, such as `engine_image`; those of an earlier one are replaced.
    """

    wanted: int
    max_unavailable: int = 1
    leaving: int | None = None
    generation: int = 1
    engine_image: str | None = None


@dataclass(frozen=True, slots=True)
class Steps:
    """The next steps: drain these, place as many as are missing, and end an overdue one per additional one placed."""

    drained: tuple[str, ...] = ()
    missing: int = 0
    overdue: tuple[str, ...] = ()


def next_steps(intent: Intent, members: Sequence[Member]) -> Steps:
    """The steps that can be taken now; `members` come oldest first."""
    staying = [member for member in members if member.state is not ReplicaState.STOPPING]
    surplus = _surplus(staying, len(staying) - intent.wanted)
    if intent.leaving is not None:
        draining = len(members) - len(staying)
        return Steps(drained=tuple(member.id for member in surplus[: max(0, intent.leaving - draining)]))
    staying = _without(staying, surplus)
    outdated = _replaceable(intent, staying)
    kept = _without(staying, outdated)
    return Steps(
        drained=tuple(member.id for member in (*surplus, *outdated)),
        missing=max(0, intent.wanted - len(kept)),
        overdue=tuple(member.id for member in kept if member.is_overdue),
    )


def _surplus(staying: Sequence[Member], count: int) -> list[Member]:
    """The replicas to drain: those that are not healthy first, then the outdated, then the youngest."""
    youngest_first = reversed(staying)
    ranked = sorted(youngest_first, key=lambda each: (each.state is ReplicaState.HEALTHY, not each.is_outdated))
    return ranked[: max(0, count)]


def _replaceable(intent: Intent, staying: Sequence[Member]) -> list[Member]:
    """The outdated replicas to drain now: all that are not healthy, and as many others as may be unavailable."""
    outdated = [member for member in staying if member.is_outdated]
    healthy = [member for member in outdated if member.state is ReplicaState.HEALTHY]
    unavailable = intent.wanted - sum(member.state is ReplicaState.HEALTHY for member in staying)
    spare = max(0, intent.max_unavailable - max(0, unavailable))
    return _without(outdated, healthy) + healthy[:spare]


def _without(members: Sequence[Member], others: Sequence[Member]) -> list[Member]:
    those = {other.id for other in others}
    return [member for member in members if member.id not in those]
