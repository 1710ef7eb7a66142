"""Starts and clears away the batches of schedules."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from pydantic import ValidationError

from relay_operator.api import inferencebatchschedule, meta
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatchschedule import InferenceBatchSchedule
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import Backoff, Random
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.events import Note, Recorder, noteworthy
from relay_operator.engine.informer import keep_answer
from relay_operator.engine.kube import AlreadyExists, JsonObject, Kube, KubeError, NotFound, Refused, ResourceType
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.flows.schedule import batches
from relay_operator.flows.schedule.cron import BadScheduleError
from relay_operator.flows.schedule.decide import AdoptBatch, Decision, Matter, Remove, StartBatch, Tell, View, decide
from relay_operator.flows.schedule.report import ScheduleFinding, Trouble, new_status, paused, status_patch
from relay_operator.flows.schedule.timetable import Timetable, UnknownTimeZoneError, timetable
from relay_operator.observability.logs import log_action, log_context

_TYPE: Final = ResourceType(inferencebatchschedule.DEFINITION.plural, meta.GROUP, meta.VERSION)
_LONGEST_WAIT: Final = 600.0
"""Seconds after which the clock is read again, since it may have been set."""
_KUBE_BACKOFF: Final = Backoff(initial=0.1, limit=30.0)
_NORMAL: Final = frozenset({Matter.BATCH_ALREADY_ACTIVE, Matter.BATCH_REPLACED})

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Memory:
    """What this process remembers of one schedule; only Events and waits depend on it."""

    uid: str
    told: dict[Matter, Tell] = field(default_factory=dict)
    kube_failures: int = 0
    refusals: int = 0
    """Batches in a row that the API server refused."""


@dataclass(slots=True)
class _Done:
    """What came of the actions."""

    started: datetime | None = None
    refused: str = ""
    names: list[str] = field(default_factory=list)
    """The actions that changed something."""


@dataclass(slots=True)
class ScheduleReconciler:
    """A `KindReconciler` for schedules."""

    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    recorder: Recorder
    on_pass: Callable[[Pass], None]
    refused_backoff: Backoff
    clock: Callable[[], float] = time.monotonic
    wall_clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    random: Random = random.random
    _memories: dict[ObjectKey, _Memory] = field(default_factory=dict)

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        """One pass; it comes back by itself at the next time of the schedule."""
        key, begun = taken.key, self.clock()
        entry = self.cache.get(key)
        if entry is None:
            self._memories.pop(key, None)
            return
        memory = self._memory(key, entry)
        outcome, wrote = "error", False
        with log_context(kind=key.kind, namespace=key.namespace, name=key.name, uid=entry.uid):
            try:
                outcome, wrote = await self._pass(key, entry, memory)
                memory.kube_failures = 0
            except ValidationError as invalid:
                problem = invalid.errors(include_url=False, include_input=False)[0]
                logger.error("the schedule cannot be read: %s: %s", problem["loc"], problem["msg"])  # noqa: TRY400
            except KubeError as error:
                memory.kube_failures += 1
                self.queue.add_after(key, _KUBE_BACKOFF.after(memory.kube_failures, self.random), Priority.RETRY)
                logger.info("the Kubernetes API did not take it: %s", error)
            finally:
                self.on_pass(Pass(taken, outcome, self.clock() - begun, wrote))

    async def _pass(self, key: ObjectKey, entry: Entry, memory: _Memory) -> tuple[str, bool]:
        schedule, now = InferenceBatchSchedule.model_validate_json(entry.body), self.wall_clock()
        found, trouble = _timetable(schedule)
        view = _view(schedule, found, self.cache, now)
        decision = decide(view, now)
        done = await self._act(key, entry, decision, memory)
        if done.refused:
            trouble = Trouble(Reason.TEMPLATE_REFUSED, done.refused)
        memory.refusals = memory.refusals + 1 if done.refused else 0
        known = batches.children(self.cache.owned_by(entry.uid))
        wrote = await self._report(key, schedule, ScheduleFinding(known, now, done.started, decision.next, trouble))
        self._come_back(key, decision, memory)
        return "+".join(done.names) or "Keep", wrote

    async def _act(self, key: ObjectKey, entry: Entry, decision: Decision, memory: _Memory) -> _Done:
        done = _Done()
        for action in decision.actions:
            match action:
                case Remove(child=child, why=why):
                    await self.kube.delete(batches.TYPE, key.namespace, child.name, uid=child.uid)
                    done.names.append("Remove")
                    log_action(logger, f"{child.name} is deleted", action="Remove", outcome=why)
                case StartBatch():
                    await self._start(key, entry, action, done, memory)
                case AdoptBatch(scheduled=scheduled):
                    done.started = scheduled
                case Tell():
                    self._tell(key, entry.uid, action, memory)
                case _ as never:
                    assert_never(never)
        return done

    async def _start(self, key: ObjectKey, entry: Entry, start: StartBatch, done: _Done, memory: _Memory) -> None:
        """Makes the batch, or finds that it was made; the name sees to it that there is never a second one."""
        try:
            raw = await self.kube.create(
                batches.TYPE, key.namespace, batches.manifest(key, entry.uid, entry.body, start)
            )
        except AlreadyExists:
            raw = await self.kube.get(batches.TYPE, key.namespace, start.name)
            if not batches.controlled_by(raw, entry.uid):
                text = f"no batch starts: an InferenceBatch {start.name} exists that is not this schedule's"
                self._tell(key, entry.uid, Tell(Matter.BATCH_NAME_TAKEN, start.scheduled, text), memory)
                return
        except Refused as refused:
            done.refused = f"the batch {start.name} is refused: {refused}"
            return
        child = ObjectKey(batches.KIND, key.namespace, start.name)
        self.cache.put(child, raw)
        self.queue.add(child, Priority.CHANGE)  # the watch will tell nothing about it that is not known
        done.started = start.scheduled
        done.names.append("Start")
        log_action(logger, f"{start.name} is started", action="Start", outcome="Started")

    def _tell(self, key: ObjectKey, uid: str, tell: Tell, memory: _Memory) -> None:
        """Once for each time, as long as this process lives."""
        if memory.told.get(tell.matter) == tell:
            return
        memory.told[tell.matter] = tell
        kind = "Normal" if tell.matter in _NORMAL else "Warning"
        self.recorder.record(key, uid, Note(kind, tell.matter, tell.text))

    async def _report(self, key: ObjectKey, schedule: InferenceBatchSchedule, finding: ScheduleFinding) -> bool:
        """At most one status write, and only if something changed."""
        after = new_status(schedule, finding)
        patch = status_patch(schedule.status, after)
        if not patch:
            return False
        uid = schedule.metadata.uid
        body: JsonObject = {"metadata": {"uid": uid}, "status": patch}
        try:
            raw = await self.kube.patch(_TYPE, key.namespace, key.name, body, subresource="status")
        except NotFound:
            return False  # deleted meanwhile: the watch will tell
        keep_answer(self.cache, self.queue, key, raw)
        deleting = schedule.metadata.deletion_timestamp is not None
        note = noteworthy(schedule.status.conditions, after.conditions, deleting=deleting)
        if note is not None:
            self.recorder.record(key, uid, note)
        return True

    def _come_back(self, key: ObjectKey, decision: Decision, memory: _Memory) -> None:
        if memory.refusals:
            self.queue.add_after(key, self.refused_backoff.after(memory.refusals, self.random), Priority.RETRY)
        if decision.next is not None:
            wait = (decision.next - self.wall_clock()).total_seconds()
            self.queue.add_after(key, min(wait, _LONGEST_WAIT), Priority.CHANGE)

    def _memory(self, key: ObjectKey, entry: Entry) -> _Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != entry.uid:
            memory = self._memories[key] = _Memory(entry.uid)
        return memory


def _timetable(schedule: InferenceBatchSchedule) -> tuple[Timetable | None, Trouble | None]:
    try:
        return timetable(schedule.spec.schedule, schedule.spec.time_zone), None
    except BadScheduleError as bad:
        return None, Trouble(Reason.SCHEDULE_INVALID, f"spec.schedule: {bad}")
    except UnknownTimeZoneError as unknown:
        return None, Trouble(Reason.TIME_ZONE_UNKNOWN, f"spec.timeZone: {unknown}")


def _view(schedule: InferenceBatchSchedule, found: Timetable | None, cache: Cache, now: datetime) -> View:
    metadata, spec = schedule.metadata, schedule.spec
    seconds = spec.starting_deadline_seconds
    return View(
        name=metadata.name,
        timetable=found,
        created=metadata.creation_timestamp or now,
        last=schedule.status.last_schedule_time,
        children=batches.children(cache.owned_by(metadata.uid)),
        policy=spec.concurrency_policy,
        deadline=None if seconds is None else timedelta(seconds=seconds),
        suspended=spec.suspend,
        paused=paused(schedule),
        deleting=metadata.deletion_timestamp is not None,
        keep_complete=spec.successful_batches_history_limit,
        keep_failed=spec.failed_batches_history_limit,
    )
