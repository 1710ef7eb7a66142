"""The flow of schedules: starts and removes their batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, assert_never

from relay_kube.errors import AlreadyExists, NotLeading, Refused
from relay_kube.kube import Kube, ResourceType
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatchschedule import (
    DEFINITION,
    InferenceBatchSchedule,
)
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.engine import Engine
from relay_operator.engine.entry import Entry
from relay_operator.engine.events import Note
from relay_operator.engine.fence import SupersededError, fence
from relay_operator.engine.flow import Flow, Turn
from relay_operator.engine.kind import resource_type
from relay_operator.engine.memory import Memory
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Told
from relay_operator.flows.schedule import batches
from relay_operator.flows.schedule.decide import (
    Action,
    AdoptBatch,
    CountFrom,
    Decision,
    Matter,
    Removal,
    Remove,
    StartBatch,
    Tell,
    View,
    decide,
)
from relay_operator.flows.schedule.report import ScheduleFinding, Trouble, new_status, report_of
from relay_operator.timetables.cron import BadScheduleError
from relay_operator.timetables.timetable import Timetable, UnknownTimeZoneError, timetable

_LONGEST_WAIT: Final = 600.0
"""Seconds after which the clock is read again, since it may have been set."""
_QUOTA: Final = "exceeded quota"
"""In the API server's words for a full ResourceQuota: the end of the running batch makes room in it."""
_NORMAL: Final = frozenset({Matter.BATCH_ALREADY_ACTIVE, Matter.BATCH_REPLACED})


@dataclass(slots=True)
class ScheduleMemory(Memory):
    """What this process remembers of one schedule; only Events and waits depend on it."""

    told: dict[Matter, Tell] = field(default_factory=dict)
    refusals: int = 0
    """Consecutive batches that the API server refused."""


@dataclass(frozen=True, slots=True)
class ScheduleFacts:
    """What a pass gathered; everything after is decided from it alone."""

    key: ObjectKey
    schedule: InferenceBatchSchedule
    now: datetime
    view: View
    trouble: Trouble | None
    error: None = None


@dataclass(slots=True)
class Done:
    """The outcome of the actions."""

    started: datetime | None = None
    history_stays: bool = False
    """Whether the API server refused to delete a finished batch: then this pass tries no other."""
    refused: str = ""
    names: list[str] = field(default_factory=list)
    """The names of actions that changed something."""
    sentences: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ScheduleFlow(Flow[InferenceBatchSchedule, ScheduleFacts, Decision, Done, ScheduleMemory]):
    """The `Flow` of schedules."""

    engine: Engine
    leading: Callable[[], bool]
    """Whether this replica may still do things that others can see."""

    @property
    def type(self) -> ResourceType:
        return resource_type(DEFINITION)

    def parse(self, body: bytes) -> InferenceBatchSchedule:
        return InferenceBatchSchedule.model_validate_json(body)

    def memory(self, uid: str) -> ScheduleMemory:
        return ScheduleMemory(uid)

    async def gather(self, turn: Turn, obj: InferenceBatchSchedule, memory: ScheduleMemory) -> ScheduleFacts:
        found, trouble = _timetable(obj)
        view = _view(obj, found, self.engine.cache.owned_by(turn.key, turn.uid), turn.now)
        return ScheduleFacts(turn.key, obj, turn.now, view, trouble)

    def plan(self, facts: ScheduleFacts) -> Decision:
        return decide(facts.view, facts.now)

    async def act(self, facts: ScheduleFacts, action: Decision, memory: ScheduleMemory, writer: ObjectWriter) -> Done:
        done = Done()
        for each in await self._possible(facts, action, done, memory):
            match each:
                case Remove(why=Removal.HISTORY) if done.history_stays:
                    pass
                case Remove():
                    await self._remove(facts, each, done, memory)
                case StartBatch():
                    await self._start(facts, each, done, memory)
                case AdoptBatch(scheduled=moment) | CountFrom(moment=moment):
                    done.started = moment
                case Tell():
                    self._tell(facts, each, memory)
                case _ as never:
                    assert_never(never)
        memory.refusals = memory.refusals + 1 if done.refused else 0
        return done

    async def _remove(self, facts: ScheduleFacts, remove: Remove, done: Done, memory: ScheduleMemory) -> None:
        """Delete a batch. A finished one that the API server does not let go holds up no batch of a later time."""
        child = remove.child
        try:
            await self._fenced(facts).delete(batches.TYPE, facts.key.namespace, child.name, uid=child.uid)
        except Refused as refused:
            if remove.why is not Removal.HISTORY:
                raise
            done.history_stays = True
            text = f"{child.name} is beyond the limits of the history, and cannot be deleted: {refused}"
            self._tell(facts, Tell(Matter.HISTORY_STAYS, child.created, text), memory)
        else:
            done.names.append("Remove")
            done.sentences.append(f"{child.name} is deleted: {remove.why}")

    def _fenced(self, facts: ScheduleFacts) -> Kube:
        """The API server, for one write right now. Raises KubeError if another replica, or another pass, decides."""
        if not self.leading():
            raise NotLeading
        if not fence(self.engine.cache, facts.key, facts.schedule.metadata, None)():
            raise SupersededError
        return self.engine.kube

    async def _possible(
        self, facts: ScheduleFacts, decision: Decision, done: Done, memory: ScheduleMemory
    ) -> Sequence[Action]:
        """The actions without a replacement that the API server refuses: the running batch must not go for nothing."""
        start = next((each for each in decision.actions if isinstance(each, StartBatch)), None)
        if start is None or not any(map(_replaces, decision.actions)):
            return decision.actions
        key, uid = facts.key, facts.schedule.metadata.uid
        body = batches.manifest(facts.schedule, start)
        try:
            await self._fenced(facts).try_create(batches.TYPE, key.namespace, body)
        except AlreadyExists:
            if batches.controlled_by(await self.engine.kube.get(batches.TYPE, key.namespace, start.name), uid):
                return decision.actions
            self._taken(facts, start, memory)
        except Refused as refused:
            if _QUOTA in str(refused):
                return decision.actions
            done.refused = f"the batch {start.name} is refused: {refused}"
        else:
            return decision.actions
        return [each for each in decision.actions if not (each == start or _replaces(each))]

    async def _start(self, facts: ScheduleFacts, start: StartBatch, done: Done, memory: ScheduleMemory) -> None:
        """Create the batch, or find that it exists; its name rules out a second one."""
        key, uid = facts.key, facts.schedule.metadata.uid
        try:
            body = batches.manifest(facts.schedule, start)
            raw = await self._fenced(facts).create(batches.TYPE, key.namespace, body)
        except AlreadyExists:
            raw = await self.engine.kube.get(batches.TYPE, key.namespace, start.name)
            if not batches.controlled_by(raw, uid):
                self._taken(facts, start, memory)
                return
        except Refused as refused:
            done.refused = f"the batch {start.name} is refused: {refused}"
            return
        child = ObjectKey(batches.KIND, key.namespace, start.name)
        self.engine.cache.put(child, raw)
        self.engine.queue.add(child, Priority.CHANGE)  # the watch will skip it, since the cache has it by then
        done.started = start.scheduled
        done.names.append("Start")
        done.sentences.append(f"{start.name} is started")

    def _taken(self, facts: ScheduleFacts, start: StartBatch, memory: ScheduleMemory) -> None:
        text = f"no batch starts: an InferenceBatch {start.name} exists that is not this schedule's"
        self._tell(facts, Tell(Matter.BATCH_NAME_TAKEN, start.scheduled, text), memory)

    def _tell(self, facts: ScheduleFacts, tell: Tell, memory: ScheduleMemory) -> None:
        """Record an Event once per time, within the life of this process."""
        if memory.told.get(tell.matter) == tell:
            return
        memory.told[tell.matter] = tell
        kind = "Normal" if tell.matter in _NORMAL else "Warning"
        self.engine.announce(facts.key, memory, Note(kind, tell.matter, tell.text))

    def tell(self, turn: Turn, facts: ScheduleFacts, action: Decision, result: Done, memory: ScheduleMemory) -> Told:
        schedule, trouble = facts.schedule, facts.trouble
        if result.refused:
            trouble = Trouble(Reason.TEMPLATE_REFUSED, result.refused)
        children = batches.children(self.engine.cache.owned_by(turn.key, turn.uid))
        contested = batches.one_output(schedule.spec.batch_template)
        finding = ScheduleFinding(children, turn.now, result.started, action.next, trouble, contested)
        report = report_of(schedule, finding, tuple(self._looks(turn, action, memory)))
        after = new_status(schedule, finding)
        name, sentence = "+".join(result.names) or "Keep", "; ".join(result.sentences)
        return Told(schedule.status, after, report, name=name, summary=sentence)

    def _looks(self, turn: Turn, decision: Decision, memory: ScheduleMemory) -> Iterator[tuple[float, Priority]]:
        policy = self.engine.retry_policy
        if memory.refusals:
            yield policy.quick.after(memory.refusals, policy.random), Priority.RETRY
        if decision.next is not None:
            yield min((decision.next - turn.now).total_seconds(), _LONGEST_WAIT), Priority.CHANGE

    async def forget(self, key: ObjectKey, memory: ScheduleMemory | None) -> None:
        """Does nothing: the flow keeps nothing besides the memory."""


def _replaces(action: Action) -> bool:
    """Whether the action is part of the end of a running batch for the next one."""
    match action:
        case Remove(why=Removal.REPLACED) | Tell(matter=Matter.BATCH_REPLACED):
            return True
        case _:
            return False


def _timetable(schedule: InferenceBatchSchedule) -> tuple[Timetable | None, Trouble | None]:
    try:
        return timetable(schedule.spec.schedule, schedule.spec.time_zone), None
    except BadScheduleError as bad:
        return None, Trouble(Reason.SCHEDULE_INVALID, f"spec.schedule: {bad}")
    except UnknownTimeZoneError as unknown:
        return None, Trouble(Reason.TIME_ZONE_UNKNOWN, f"spec.timeZone: {unknown}")


def _view(
    schedule: InferenceBatchSchedule, found: Timetable | None, owned: Mapping[ObjectKey, Entry], now: datetime
) -> View:
    metadata, spec = schedule.metadata, schedule.spec
    seconds = spec.starting_deadline_seconds
    return View(
        name=metadata.name,
        timetable=found,
        created=metadata.creation_timestamp or now,
        last=schedule.status.last_schedule_time,
        children=batches.children(owned),
        policy=spec.concurrency_policy,
        deadline=None if seconds is None else timedelta(seconds=seconds),
        suspended=spec.suspend,
        paused=metadata.held,
        deleting=metadata.deletion_timestamp is not None,
        keep_complete=spec.successful_batches_history_limit,
        keep_failed=spec.failed_batches_history_limit,
    )
