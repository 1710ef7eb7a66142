"""One leader among the replicas, by a Lease. See docs/decisions for why this is not the client library's election.

Safety rests on durations alone: a leader stops `renew_deadline` after it last *began* a renewal that succeeded, and a
standby takes over `duration` after it last *saw* a renewal of the Lease, even if that is deleted, emptied or edited.
Wall clocks are never compared.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn, Protocol

from pydantic import JsonValue

from relay_kube.errors import Conflict, KubeError, NotFound, Unavailable
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.engine.manifests import part
from relay_operator.observability.logs import log_action

_REPEAT_SECONDS = 60.0
"""Seconds between two log lines about a refused Lease, so that the end of the log always shows one."""

_LONGEST_SECONDS = 86_400.0
"""The longest `RELAY_LEASE_DURATION_SECONDS`: a longer one was written by hand, and no holder needs it."""
_RELEASED_SECONDS = 1
"""The `leaseDurationSeconds` of a released Lease: who merely empties the holder leaves the holder's own there."""
_TRIES = 3
"""Attempts at one renewal while others write to the Lease, too."""

_log = logging.getLogger(__name__)


LEASES = ResourceType("leases", "coordination.k8s.io")


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """Seconds; must be `retry < renew_deadline < duration`, or two replicas could lead at once."""

    duration: float
    renew_deadline: float
    retry: float


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as read."""

    version: str
    holder: str
    """Empty if the Lease was released, or if somebody emptied it."""
    duration: float
    transitions: int
    renewed: str = ""
    """Its time of the last renewal, which is only compared with that of an earlier read."""
    released: bool = False
    """Whether its last holder gave it up, and has ended its work."""

    @classmethod
    def read(cls, body: Mapping[str, JsonValue], least_duration: float) -> "Lease":
        """Parse the object; a missing or malformed value counts as absent.

        A shorter duration than the replicas' own counts as theirs: its holder may lead for longer than it says.
        """
        metadata, spec = part(body, "metadata"), part(body, "spec")
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        holder = str(spec.get("holderIdentity") or "")
        return cls(
            version=str(metadata.get("resourceVersion") or ""),
            holder=holder,
            duration=min(max(duration, least_duration), _LONGEST_SECONDS)
            if isinstance(duration, int)
            else least_duration,
            transitions=transitions if isinstance(transitions, int) else 0,
            renewed=str(spec.get("renewTime") or ""),
            released=not holder and duration == _RELEASED_SECONDS,
        )

    def renewed_since(self, former: "Lease") -> bool:
        """Whether its holder wrote in between; others may label or annotate it as often as they like."""
        return (self.holder, self.renewed or self.version) != (former.holder, former.renewed or former.version)


def may_take(lease: Lease, identity: str, unchanged_seconds: float) -> bool:
    """Whether the Lease is released, held by this replica, or unrenewed for its holder's whole duration."""
    return lease.released or lease.holder == identity or unchanged_seconds >= lease.duration


def claim(former: Lease | None, identity: str, times: LeaseTimes, now: str) -> JsonObject:
    """The spec with which a candidate takes the Lease; `now` is for people, no decision depends on it."""
    spec: JsonObject = {
        "holderIdentity": identity,
        # Rounded up: a standby must never take over before this holder has surely ended.
        "leaseDurationSeconds": max(math.ceil(times.duration), _RELEASED_SECONDS + 1),
        "renewTime": now,
    }
    if former is None or former.holder != identity:
        spec["acquireTime"] = now
        spec["leaseTransitions"] = 0 if former is None else former.transitions + 1
    return spec


class LeaseLostError(Exception):
    """This replica no longer leads, or cannot know: the process must end before it sends anything else."""


class LeaseApi(Protocol):
    """The part of `Kube` that an election needs."""

    async def get(self, kind: ResourceType, namespace: str | None, name: str) -> JsonObject: ...
    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject: ...
    async def patch(
        self, kind: ResourceType, namespace: str | None, name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject: ...


def lease_clock() -> float:
    """Monotonic seconds; includes the time that the machine was suspended, where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(slots=True)
class Election:
    """One candidate: call `acquire`, then `hold` beside the work, then `release`.

    `identity` must belong to this process alone, or to processes that replace each other (the containers of one Pod):
    a Lease found with it is taken over at once.
    """

    api: LeaseApi
    namespace: str
    name: str
    identity: str
    times: LeaseTimes
    clock: Callable[[], float] = lease_clock
    wall_clock: Callable[[], datetime] = _now
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    on_turn: Callable[[], None] = lambda: None
    """Called at every turn of either loop, as a sign of life."""
    former: str = field(default="", init=False)
    """The former holder of the Lease taken over; empty if it was free, or this replica's own."""
    _lease: Lease | None = field(default=None, init=False)
    _changed_at: float = field(default=0.0, init=False)
    _deadline: float | None = field(default=None, init=False)
    _claiming: bool = field(default=False, init=False)
    """Whether this replica ever asked for the Lease, so that it may hold it without knowing."""
    _awaited: str = field(default="", init=False)
    _complaint: str = field(default="", init=False)
    _complained_at: float = field(default=float("-inf"), init=False)
    _unfit: str | None = field(default="the API server has not answered for the Lease yet", init=False)

    def leading(self) -> bool:
        """Whether this replica surely leads now; MUST be checked before anything is sent to the cloud."""
        return self._deadline is not None and self.clock() < self._deadline

    def unfit(self) -> str | None:
        """Why this replica does not count as ready: its last attempt was refused, or none has been answered yet."""
        return self._unfit

    async def acquire(self) -> None:
        """Return once this replica leads; errors of the API server are waited out."""
        while not await self.attempt():
            await self.sleep(self.times.retry)
        log_action(_log, f"leading as {self.identity}", action="AcquireLease", outcome="acquired")

    async def hold(self) -> NoReturn:
        """Renew for as long as possible. Raises LeaseLostError."""
        while True:
            await self.sleep(self.times.retry)
            await self.renew()

    async def attempt(self) -> bool:
        """Run one turn of a candidate; True if it leads afterwards."""
        self.on_turn()
        try:
            async with asyncio.timeout(self.times.renew_deadline):
                leads = await self._attempt()
        except (Conflict, NotFound):
            leads = False  # another replica was faster
        except (KubeError, TimeoutError) as error:
            self._complain(error)
            return False
        self._unfit = None
        return leads

    async def renew(self) -> None:
        """Run one turn of a leader. Raises LeaseLostError."""
        self.on_turn()
        deadline = self._deadline
        if deadline is None or self.clock() >= deadline:
            raise self._lost("it could not be renewed in time")
        try:
            # Half of the remaining time, so that one hanging connection does not use it up.
            async with asyncio.timeout((deadline - self.clock()) / 2):
                await self._renew()
        except NotFound:
            raise self._lost("it was deleted") from None
        except (KubeError, TimeoutError) as error:
            self._complain(error)

    async def release(self) -> None:
        """Give up the Lease, if this replica may hold it, so that a standby need not wait.

        Call it after all work has ended, also if `acquire` was cancelled.
        """
        self._deadline = None
        if not self._claiming:
            return
        try:
            async with asyncio.timeout(self.times.retry):
                # Read first: a claim or a renewal that was cut off may have landed.
                lease = await self._read()
                if lease.holder == self.identity:
                    await self._write(lease, {"holderIdentity": None, "leaseDurationSeconds": _RELEASED_SECONDS})
                    _log.info("the Lease is released")
        except (KubeError, TimeoutError) as error:
            _log.warning("the Lease could not be released, a standby waits %g s: %s", self.times.duration, error)

    async def _attempt(self) -> bool:
        exists = True
        try:
            await self._read()
        except NotFound:
            exists = False  # the holder of a deleted Lease leads until its next renewal
        lease = self._lease
        if lease is not None and not may_take(lease, self.identity, self.clock() - self._changed_at):
            self._stand_by(lease)
            return False
        begun = self.clock()
        self._claiming = True
        if exists and lease is not None:
            await self._write(lease, claim(lease, self.identity, self.times, self._micro_time()))
        else:
            await self._create()
        self.former = lease.holder if lease is not None and lease.holder != self.identity else ""
        self._deadline = begun + self.times.renew_deadline
        return True

    async def _renew(self) -> None:
        lease, duration = self._lease, math.ceil(self.times.duration)
        assert lease is not None, "only a holder renews"
        for _ in range(_TRIES):
            begun = self.clock()
            try:
                # With the duration, since standbys would wait for a longer one that somebody wrote.
                await self._write(lease, {"renewTime": self._micro_time(), "leaseDurationSeconds": duration})
            except Conflict:
                # A lost answer to this replica's renewal, a label, or another holder: only a read can tell.
                lease = await self._read()
                if lease.holder != self.identity:
                    raise self._lost(f"{lease.holder or 'nobody'} holds it") from None
            else:
                self._deadline = begun + self.times.renew_deadline
                self._complaint = ""
                return

    async def _read(self) -> Lease:
        return self._observe(await self.api.get(LEASES, self.namespace, self.name))

    async def _create(self) -> None:
        body: JsonObject = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": claim(None, self.identity, self.times, self._micro_time()),
        }
        try:
            self._observe(await self.api.create(LEASES, self.namespace, body))
        except NotFound:
            missing = f"the namespace {self.namespace} does not exist: see RELAY_NAMESPACE"
            raise KubeError(404, "NotFound", missing) from None

    async def _write(self, lease: Lease, spec: JsonObject) -> None:
        # The version is the precondition: of two replicas that saw the same Lease, one gets a 409.
        body: JsonObject = {"metadata": {"resourceVersion": lease.version}, "spec": spec}
        self._observe(await self.api.patch(LEASES, self.namespace, self.name, body))

    def _observe(self, body: JsonObject) -> Lease:
        former, lease = self._lease, Lease.read(body, self.times.duration)
        if former is None or lease.renewed_since(former):
            self._changed_at = self.clock()
        self._lease = lease
        return lease

    def _stand_by(self, lease: Lease) -> None:
        """Log once for each holder whom this replica waits for, and how long."""
        holder = lease.holder or "an unknown replica"
        if holder != self._awaited:
            self._awaited = holder
            _log.info("standing by: %s holds the Lease, which it has to renew every %g s", holder, lease.duration)

    def _micro_time(self) -> str:
        """The wall clock in the Lease's notation, for people: no decision depends on it."""
        return self.wall_clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    def _lost(self, why: str) -> LeaseLostError:
        self._deadline = None
        return LeaseLostError(f"the Lease {self.namespace}/{self.name} is lost: {why}")

    def _complain(self, error: Exception) -> None:
        text = str(error) or "no answer in time"
        refused = isinstance(error, KubeError) and not isinstance(error, Unavailable)
        if refused:
            self._unfit = f"the Lease {self.namespace}/{self.name} is refused, so this replica cannot lead: {text}"
        again = refused and self.clock() - self._complained_at >= _REPEAT_SECONDS
        if text != self._complaint or again:  # the same message every two seconds adds nothing
            self._complaint, self._complained_at = text, self.clock()
            level = logging.ERROR if refused else logging.WARNING
            _log.log(level, "the Lease %s/%s cannot be asked about or written: %s", self.namespace, self.name, text)
