"""Counts the live replicas of a cluster or deployment by state, and words why some do not serve."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from relay_localcloud.replicas.states import ReplicaState

MOST_SAID: Final = 3
"""How many different reasons of replicas a text has at most."""


class Counted(Protocol):
    """The fields of a replica that a census reads."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> ReplicaState: ...
    @property
    def reason(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Census:
    """The ids of a cluster's or deployment's live replicas by state; `wanted` is the desired number."""

    wanted: int
    healthy: Sequence[str] = ()
    starting: Sequence[str] = ()
    unhealthy: Sequence[str] = ()
    recovering: Sequence[str] = ()
    failed: Sequence[str] = ()
    lost: Sequence[str] = ()
    words: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The ids of the replicas that do not serve, by their reason."""

    @classmethod
    def of(cls, wanted: int, members: Sequence[Counted]) -> "Census":
        """Sort live replicas; stopping ones are in no group."""
        groups: dict[ReplicaState, list[str]] = {state: [] for state in ReplicaState}
        words: dict[str, list[str]] = {}
        for member in members:
            groups[member.status].append(member.id)
            if member.reason is not None and member.status is not ReplicaState.STOPPING:
                words.setdefault(member.reason, []).append(member.id)
        return cls(
            wanted,
            healthy=groups[ReplicaState.HEALTHY],
            starting=groups[ReplicaState.PROVISIONING] + groups[ReplicaState.STARTING],
            unhealthy=groups[ReplicaState.UNHEALTHY],
            recovering=groups[ReplicaState.RECOVERING],
            failed=groups[ReplicaState.FAILED],
            lost=groups[ReplicaState.LOST] + groups[ReplicaState.UNREACHED],
            words=words,
        )

    @property
    def missing(self) -> int:
        """How many wanted replicas have not been placed; negative while there are too many."""
        return self.wanted - len(self.healthy) - len(self.starting) - len(self._amiss)

    @property
    def is_amiss(self) -> bool:
        """Whether replicas are missing, or placed but neither healthy nor starting for the first time."""
        return bool(self._amiss) or self.missing > 0

    @property
    def is_hopeless(self) -> bool:
        """Whether no replica is healthy, starting or recovering."""
        return not self.healthy and not self.starting and not self.recovering

    @property
    def said(self) -> str | None:
        """Up to MOST_SAID reasons why replicas do not serve, as one text; None if there is none."""
        parts = [f"{_some(ids)}: {words}" for words, ids in list(self.words.items())[:MOST_SAID]]
        return " ".join(parts) or None

    @property
    def _amiss(self) -> Sequence[str]:
        return [*self.unhealthy, *self.recovering, *self.failed, *self.lost]


def degradation(census: Census, replica: str) -> str:
    """What is wrong, and with which replicas; `replica` says what one of them needs, such as `1 x h100`."""
    parts = [f"{len(census.healthy)} of {census.wanted} replicas are healthy."]
    if census.unhealthy:
        parts.append(f"Failing health checks: {', '.join(census.unhealthy)}.")
    if census.recovering:
        parts.append(f"Starting again: {', '.join(census.recovering)}.")
    if census.failed:
        parts.append(f"Given up: {', '.join(census.failed)}.")
    if census.lost:
        parts.append(f"On nodes that do not report: {', '.join(census.lost)}.")
    if census.starting:
        parts.append(f"Starting: {', '.join(census.starting)}.")
    if census.missing > 0:
        parts.append(f"Waiting for room for {census.missing} more ({replica} each).")
    if census.said is not None:
        parts.append(census.said)
    return " ".join(parts)


def _some(ids: Sequence[str]) -> str:
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"
