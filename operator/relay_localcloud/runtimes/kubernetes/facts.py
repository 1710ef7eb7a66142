"""Facts about the wanted container, read from a Pod and its Events. Pure.

Facts are levels: they hold for as long as the Pod shows the same. The status of a Pod on a silent node is stale, so
look at nodes first. `now` is by the machines' clocks, as the times of a cluster's objects are. Messages are the
kubelet's and the scheduler's own, if they have any.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
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
"""How long a container that cannot start is retried, since a kubelet accepted or rejected its Pod, or it last ran."""
SCHEDULED_WITHIN: Final = 10 * MINUTE
PREPARED_WITHIN: Final = 120 * MINUTE
"""How long a kubelet may pull images and mount volumes: what is pulled without end holds GPUs, and is not billed."""
EXITS: Final = 5
EXITS_WITHIN: Final = 10 * MINUTE
RAN: Final = 60 * SECOND
"""A container fails after EXITS exits within EXITS_WITHIN if none of those runs took RAN or longer."""
LEAVES_WITHIN: Final = 1 * MINUTE
"""How long a Pod may stay after the time by which its kubelet was to have ended it."""
MOST_WORDS: Final = 1000
NEVER_PREPARED: Final = "Its image was not pulled, or a volume was not mounted, within two hours."
NOT_HEALTHY_YET: Final = "It has not passed its health check yet."
CORDONED: Final = "Its node is cordoned: it starts once the node is uncordoned."
ALL_CORDONED: Final = "Every node that it could run on is cordoned: it starts once one of them is uncordoned."

STUCK: Final = "Its former Pod was to end and is still there: it starts again once that Pod is gone."

NEVER: Final = 0
"""The `started_at` of a container that ended without having started."""

_SAYS_NOTHING: Final = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})
"""Waiting reasons that do not mean a failed start; every other one does, including those of future kubelets."""
_BACK_OFF: Final = re.compile(r'Back-off pulling image ".*?"(?:: \w+)?: ')
_OF_OTHERS: Final = frozenset({"FailedScheduling", "Unhealthy", "BackOff"})
"""Reasons of warnings that say nothing about a start, or only what the status says too."""
_EVICTED: Final = "Evicted"
_OWN_LIMITS: Final = ("Container ", "Pod ephemeral local storage usage ", "Usage of EmptyDir volume ")
"""How a kubelet begins to say that it evicts a Pod which exceeds a limit of its own.

Any other eviction is for a node that others may have filled: "The node was low on resource", "The node had condition".
"""


@dataclass(frozen=True, slots=True)
class Started:
    """The container has run since `at`, by the kubelet's clock."""

    at: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The container ended, with both times by the kubelet's clock; Kubernetes restarts it."""

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
    """No node accepts the Pod: other Pods use the resources on which the cloud placed it."""

    words: str


@dataclass(frozen=True, slots=True)
class CannotStart:
    """The container cannot start, and is still retried."""

    words: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The container is not retried any more; it has not run since `ended_at`, None if that is unknown."""

    words: str
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class TakenOff:
    """The kubelet ended the Pod because of the node, not of the container: the Pod is to be recreated."""

    words: str


@dataclass(frozen=True, slots=True)
class Deleted:
    """The Pod is being deleted or has vanished, although its container is wanted."""

    words: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """The Pod is gone since some time at which nobody looked; its container is known to have run until `ended_at`."""

    words: str | None
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Stuck:
    """The Pod was to end by `ended_at`, and is still there: a node is dead or hangs, or somebody's finalizer stays."""

    words: str = STUCK
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class FoundRunning:
    """The Pod is of a later start than the holder knows of, and the holder is to rest."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """The wanted Pod is still to be created."""


@dataclass(frozen=True, slots=True)
class Cordoned:
    """The wanted Pod is on no node, and is created only once its node, or any if it has none, is uncordoned.

    The container of the one before it has not run since `ended_at`, None if that is unknown.
    """

    words: str = CORDONED
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class NotMade:
    """The cluster does not take the wanted Pod for now; the container of its former one has not run since `ended_at`.

    Without words, it is likely to take it a moment later.
    """

    words: str | None
    ended_at: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The Pod does not exist any more."""


Fact: TypeAlias = (
    Started
    | Exited
    | Healthy
    | Unhealthy
    | Pending
    | CannotStart
    | Failed
    | TakenOff
    | Deleted
    | Vanished
    | Stuck
    | FoundRunning
    | Awaited
    | Cordoned
    | NotMade
    | Gone
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

    def failed(self, words: str) -> Failed:
        state, last = self.container.state, self.container.last_state
        ended = state.terminated or last.terminated
        if ended is None and self.pod.status.phase == "Pending":
            return Failed(words, self.pod.metadata.creation_timestamp)
        ran = ended is not None and ended.started_at and state.running is None
        return Failed(words, ended.finished_at if ended is not None and ran else None)


_Rule: TypeAlias = Callable[[_Look], Iterator[Fact]]


def of_pod(pod: Pod | None, events: Sequence[Event], exits: Sequence[Exited], now: int) -> list[Fact]:
    """The facts about the holder of this Pod, in the order in which they came about.

    `events` are those of exactly this Pod; `exits` are the earlier ones of the same start, as from `last_exits`.
    """
    if pod is None:
        return [Gone()]
    look = _Look(pod, events, last_exits(pod, exits), now)
    return [fact for rule in _rules(look) for fact in rule(look)]


def stuck(pod: Pod, now: int) -> list[Fact]:
    """Stuck, for a Pod that has not gone LEAVES_WITHIN after it was to end."""
    ends_at = pod.metadata.deletion_timestamp
    return [Stuck(ended_at=ends_at)] if ends_at is not None and now - ends_at >= LEAVES_WITHIN else []


def bounded(told: Sequence[Fact], rejected_since: int | None, now: int) -> list[Fact]:
    """The facts, with Failed for TakenOff once START_WITHIN has passed since kubelets began to end each of its Pods."""
    lasts = rejected_since is not None and now - rejected_since >= START_WITHIN
    return [Failed(fact.words, rejected_since) if lasts and isinstance(fact, TakenOff) else fact for fact in told]


def on_cloud(fact: Fact, ahead: int) -> Fact:
    """The fact with its times on the cloud's clock, which is so far ahead of the kubelets'."""
    match fact:
        case Started(at):
            return replace(fact, at=at + ahead)
        case Exited():
            return replace(fact, started_at=fact.started_at + ahead, finished_at=fact.finished_at + ahead)
        case Failed(_, int(ended_at)) | Stuck(_, int(ended_at)):
            return replace(fact, ended_at=ended_at + ahead)
        case _:
            return fact


def killed_at(events: Iterable[Event]) -> int | None:
    """When a kubelet last ended a container of a Pod, if its events say so."""
    return max((event.at for event in events if event.reason == "Killing"), default=0) or None


def last_exits(pod: Pod, exits: Sequence[Exited]) -> list[Exited]:
    """At most EXITS last exits, the oldest first: those of `exits` and those that the Pod reports."""
    return sorted({*exits, *_exits_of(_container_of(pod))}, key=lambda each: each.finished_at)[-EXITS:]


def _container_of(pod: Pod) -> ContainerStatus:
    """The status of the cloud's own container; other containers in the Pod are the cluster's, such as sidecars."""
    said = (status for status in pod.status.container_statuses if status.name == CONTAINER)
    return next(said, ContainerStatus(name=CONTAINER))


def _rules(look: _Look) -> Sequence[_Rule]:
    if look.pod.metadata.deletion_timestamp is not None:
        return (_stuck,) if stuck(look.pod, look.now) else (_exited, _deleted)
    if look.pod.status.phase == "Failed":
        return (_exited, _taken_off)
    return _WHILE_IT_IS_WANTED


def _exited(look: _Look) -> Iterator[Fact]:
    yield from _exits_of(look.container)


def _deleted(look: _Look) -> Iterator[Fact]:
    disrupted = condition(look.pod.status.conditions, "DisruptionTarget")
    yield Deleted(_words(disrupted.message if disrupted is not None else "", "Its Pod was deleted."))


def _stuck(look: _Look) -> Iterator[Fact]:
    yield from stuck(look.pod, look.now)


def _taken_off(look: _Look) -> Iterator[Fact]:
    status = look.pod.status
    words = _words(f"{status.reason}: {status.message}")
    exceeds = status.reason == _EVICTED and status.message.startswith(_OWN_LIMITS)
    yield look.failed(words) if exceeds else TakenOff(words)


def _unscheduled(look: _Look) -> Iterator[Fact]:
    scheduled = condition(look.pod.status.conditions, "PodScheduled")
    if scheduled is None or scheduled.status != "False":
        return
    waited = look.now - look.pod.metadata.creation_timestamp
    words = _words(scheduled.message, scheduled.reason)
    yield Pending(words) if waited < SCHEDULED_WITHIN else look.failed(words)


def _runs(look: _Look) -> Iterator[Fact]:
    running = look.container.state.running
    if running is None or running.started_at is None:
        return
    yield Started(running.started_at)
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
        words = f"It exited {EXITS} times within ten minutes, after less than a minute each; {how}{said}"
        yield look.failed(_words(words))


def _cannot_start(look: _Look) -> Iterator[Fact]:
    began_at = look.pod.status.start_time or look.pod.metadata.creation_timestamp
    tried_for = look.now - max([began_at, *(each.finished_at for each in look.exits)])
    words = _refusal(look)
    if words is not None:
        yield CannotStart(words) if tried_for < START_WITHIN else look.failed(words)
    elif _is_being_prepared(look) and tried_for >= PREPARED_WITHIN:
        yield look.failed(NEVER_PREPARED)


def _is_being_prepared(look: _Look) -> bool:
    """Whether a kubelet accepted the Pod, and its container has not begun yet."""
    state = look.container.state
    begun = state.running or state.terminated or look.container.last_state.terminated
    return look.pod.status.start_time is not None and begun is None


def _refusal(look: _Look) -> str | None:
    """Why the container does not start, in the kubelet's words; None if it still may, as while its image is pulled."""
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
    """The message of the last event if that warns about a start; a warning before other events is obsolete."""
    last = max(events, key=lambda event: event.at, default=Event())
    return _words(last.message, last.reason) if last.type == "Warning" and last.reason not in _OF_OTHERS else None


def _exits_of(status: ContainerStatus) -> Iterator[Exited]:
    for ended in (status.last_state.terminated, status.state.terminated):
        if ended is not None and ended.started_at and ended.finished_at is not None:
            yield Exited(ended.exit_code, ended.reason, ended.message, ended.started_at, ended.finished_at)


def _words(said: str, otherwise: str = "") -> str:
    return (said.strip() or otherwise)[:MOST_WORDS]


_WHILE_IT_IS_WANTED: Final[Sequence[_Rule]] = (_unscheduled, _exited, _runs, _exits_too_often, _cannot_start)
