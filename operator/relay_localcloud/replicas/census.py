"""The live replicas of a cluster or deployment, sorted, and what is amiss with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from relay_localcloud.replicas.states import ReplicaState


class Counted(Protocol):
    """A replica, as far as a census goes."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> ReplicaState: ...


@dataclass(frozen=True, slots=True)
class Census:
    """The replicas of a cluster or deployment, sorted; `wanted` is how many there are to be."""

    wanted: int
    healthy: Sequence[str] = ()
    starting: Sequence[str] = ()
    unhealthy: Sequence[str] = ()
    lost: Sequence[str] = ()

    @classmethod
    def of(cls, wanted: int, members: Sequence[Counted]) -> "Census":
        """Sort live replicas; those that stop are in no group."""
        groups: dict[ReplicaState, list[str]] = {state: [] for state in ReplicaState}
        for member in members:
            groups[member.status].append(member.id)
        healthy, starting = groups[ReplicaState.HEALTHY], groups[ReplicaState.PROVISIONING]
        return cls(wanted, healthy, starting, groups[ReplicaState.UNHEALTHY], groups[ReplicaState.LOST])

    @property
    def missing(self) -> int:
        """How many are wanted that found no room."""
        return self.wanted - len(self.healthy) - len(self.starting) - len(self.unhealthy) - len(self.lost)

    @property
    def is_amiss(self) -> bool:
        """Whether some do not serve and are not about to."""
        return bool(self.unhealthy or self.lost) or self.missing > 0

    @property
    def is_hopeless(self) -> bool:
        """Whether nothing serves and nothing is about to."""
        return not self.healthy and not self.starting


def degradation(census: Census, replica: str) -> str:
    """What is amiss and with which replicas; `replica` says what one of them needs, such as `1 x h100`."""
    parts = [f"{len(census.healthy)} of {census.wanted} replicas are healthy."]
    if census.unhealthy:
        parts.append(f"Failing health checks: {', '.join(census.unhealthy)}.")
    if census.lost:
        parts.append(f"On nodes that do not report: {', '.join(census.lost)}.")
    if census.starting:
        parts.append(f"Starting: {', '.join(census.starting)}.")
    if census.missing > 0:
        parts.append(f"Waiting for room for {census.missing} more ({replica} each).")
    return " ".join(parts)
