"""What a Pod and its Events say of the container that is wanted, as facts. Pure.

Facts are levels: as long as a Pod says the same, so do they. What a Pod says on a silent node is old: ask nodes first.
Words are the kubelet's and the scheduler's own, wherever they have any.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from relay_localcloud.kernel.instants import MINUTE, SECOND
from relay_localcloud.runtimes.kubernetes.names import CONTAINER
from relay_localcloud.runtimes.kubernetes.observed import (
    ContainerStatus,
    Event,
    Pod,
    Waiting,
    condition,
    is_ready,
)

START_WITHIN: Final = 5 * MINUTE
"""How long a container that cannot start is tried, from when the kubelet took it or it last ran."""
SCHEDULED_WITHIN: Final = 10 * MINUTE
EXITS: Final = 5
EXITS_WITHIN: Final = 10 * MINUTE
RAN: Final = 60 * SECOND
"""So many exits, within so long, none of which had run for this: it fails."""
MOST_WORDS: Final = 1000
NOT_HEALTHY_YET: Final = "It has not passed its health check yet."

NEVER: Final = 0
"""When a container started that did not."""

_SAYS_NOTHING: Final = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})
"""Reasons of waiting that are none for not starting; every other one is, also those of kubelets to come."""
_BACK_OFF: Final = re.compile(r'Back-off pulling image ".*?"(?:: \w+)?: ')
_OF_OTHERS: Final = frozenset({"FailedScheduling", "Unhealthy", "BackOff"})
"""Warnings that say nothing of a start, or nothing that a status does not say as well."""
_ENDS: Final = frozenset({"Evicted"})
"""Why a kubelet takes a Pod off its node because of what the container did, or used."""


@dataclass(frozen=True, slots=True)
class Started:
    """The container runs, at an address inside the cluster, since `at`, which is the kubelet's."""

    at: int
    address: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The container ended, both times are the kubelet's; it starts again by itself."""

    exit_code: int
    reason: str
    message: str
    started_at: int
    finished_at: int


@dataclass(frozen=True, slots=True)
class Healthy:
    """The container is ready."""


@dataclass(frozen=True, slots=True)
class Unhealthy:
    """The container runs and is not ready."""

    words: str


@dataclass(frozen=True, slots=True)
class Pending:
    """No node takes the Pod: somebody else has what the cloud placed it on."""

    words: str


@dataclass(frozen=True, slots=True)
class CannotStart:
    """The container cannot start, and is still tried."""

    words: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The container is given up."""

    words: str


@dataclass(frozen=True, slots=True)
class TakenOff:
    """The kubelet gave the Pod up for a reason of the node's: it is to be made again."""

    words: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The Pod is on its way out; of one that the cloud did not end, somebody else did."""

    words: str


@dataclass(frozen=True, slots=True)
class Awaited:
    """The Pod that is wanted is still to be made."""


@dataclass(frozen=True, slots=True)
class Gone:
    """There is no Pod."""


Fact: TypeAlias = (
    Started | Exited | Healthy | Unhealthy | Pending | CannotStart | Failed | TakenOff | Deleted | Awaited | Gone
)


@dataclass(frozen=True, slots=True)
class _Look:
    pod: Pod
    events: Sequence[Event]
    exits: Sequence[Exited]
    now: int

    @property
    def container(self) -> ContainerStatus:
        return _container_of(self.pod)


_Rule: TypeAlias = Callable[[_Look], Iterator[Fact]]


def of_pod(pod: Pod | None, events: Sequence[Event], exits: Sequence[Exited], now: int) -> list[Fact]:
    """What there is to say of a holder whose Pod this is, in the order in which it came to be.

    `events` are those of this very Pod; `exits` are the earlier ones of the same start, as `last_exits` had them.
    """
    if pod is None:
        return [Gone()]
    look = _Look(pod, events, last_exits(pod, exits), now)
    return [fact for rule in _rules(pod) for fact in rule(look)]


def last_exits(pod: Pod, exits: Sequence[Exited]) -> list[Exited]:
    """The last exits, with those that the Pod tells of, the oldest first: no more than the rules need."""
    return sorted({*exits, *_exits_of(_container_of(pod))}, key=lambda each: each.finished_at)[-EXITS:]


def _container_of(pod: Pod) -> ContainerStatus:
    """Ours: what else runs in the Pod, whoever administers the cluster put there."""
    said = (status for status in pod.status.container_statuses if status.name == CONTAINER)
    return next(said, ContainerStatus(name=CONTAINER))


def _rules(pod: Pod) -> Sequence[_Rule]:
    if pod.metadata.deletion_timestamp is not None:
        return (_exited, _deleted)
    if pod.status.phase == "Failed":
        return (_exited, _taken_off)
    return _WHILE_IT_IS_WANTED


def _exited(look: _Look) -> Iterator[Fact]:
    yield from _exits_of(look.container)


def _deleted(look: _Look) -> Iterator[Fact]:
    disrupted = condition(look.pod.status.conditions, "DisruptionTarget")
    yield Deleted(_words(disrupted.message if disrupted is not None else "", "Its Pod was deleted."))


def _taken_off(look: _Look) -> Iterator[Fact]:
    status = look.pod.status
    words = _words(f"{status.reason}: {status.message}")
    yield Failed(words) if status.reason in _ENDS else TakenOff(words)


def _unscheduled(look: _Look) -> Iterator[Fact]:
    scheduled = condition(look.pod.status.conditions, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return
    waited = look.now - look.pod.metadata.creation_timestamp
    words = _words(scheduled.message, scheduled.reason)
    yield Pending(words) if waited < SCHEDULED_WITHIN else Failed(words)


def _runs(look: _Look) -> Iterator[Fact]:
    running, address = look.container.state.running, look.pod.status.pod_ip
    if running is None or running.started_at is None or address is None:
        return
    yield Started(running.started_at, address)
    if is_ready(look.pod, CONTAINER):
        yield Healthy()
    else:
        probed = (event for event in look.events if event.reason == "Unhealthy")
        last = max(probed, key=lambda event: event.at, default=Event())
        yield Unhealthy(_words(last.message, NOT_HEALTHY_YET))


def _exits_too_often(look: _Look) -> Iterator[Fact]:
    exits = look.exits
    if look.container.state.running is not None or len(exits) < EXITS:
        return
    first, last = exits[0], exits[-1]
    short = all(each.finished_at - each.started_at < RAN for each in exits)
    if short and last.finished_at - first.finished_at <= EXITS_WITHIN:
        how = f"exit code {last.exit_code}{f' ({last.reason})' if last.reason else ''}"
        said = f": {last.message}" if last.message else "."
        yield Failed(_words(f"It exited {EXITS} times within ten minutes, after less than a minute each; {how}{said}"))


def _cannot_start(look: _Look) -> Iterator[Fact]:
    words = _refusal(look)
    if words is None:
        return
    began_at = look.pod.status.start_time or look.pod.metadata.creation_timestamp
    tried_since = max([began_at, *(each.finished_at for each in look.exits)])
    yield CannotStart(words) if look.now - tried_since < START_WITHIN else Failed(words)


def _refusal(look: _Look) -> str | None:
    """Why the container does not start, in the kubelet's words; None if it may yet, as while its image is pulled."""
    state = look.container.state
    if state.running is not None or look.pod.status.start_time is None:
        return None
    waiting = state.waiting or Waiting()
    if waiting.reason not in _SAYS_NOTHING:
        return _words(_BACK_OFF.sub("", waiting.message), waiting.reason)
    ended = state.terminated or look.container.last_state.terminated
    if ended is None:
        return _last_warning(look.events)
    return _words(ended.message, ended.reason) if ended.started_at == NEVER else None


def _last_warning(events: Sequence[Event]) -> str | None:
    """What the last event warns of; an older warning is overcome by what came after it."""
    last = max(events, key=lambda event: event.at, default=Event())
    return _words(last.message, last.reason) if last.type == "Warning" and last.reason not in _OF_OTHERS else None


def _exits_of(status: ContainerStatus) -> Iterator[Exited]:
    for ended in (status.last_state.terminated, status.state.terminated):
        if ended is not None and ended.started_at and ended.finished_at is not None:
            yield Exited(ended.exit_code, ended.reason, ended.message, ended.started_at, ended.finished_at)


def _words(said: str, otherwise: str = "") -> str:
    return (said.strip() or otherwise)[:MOST_WORDS]


_WHILE_IT_IS_WANTED: Final[Sequence[_Rule]] = (_unscheduled, _exited, _runs, _exits_too_often, _cannot_start)
