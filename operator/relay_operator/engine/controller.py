"""The one pass over an object of any kind: gather, plan, protect, act, report, come back later."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, assert_never

from pydantic import ValidationError

from relay_kube.errors import Conflict, KubeError, NotFound, Unavailable
from relay_kube.kube import JsonObject
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import FINALIZER, ObjectKey, ObjectMeta
from relay_operator.api.references import AccountKind
from relay_operator.engine import actions, conditions, finalizer, unreadable
from relay_operator.engine.account_users import DEFAULT_NAME
from relay_operator.engine.backoff import Backoff
from relay_operator.engine.engine import Engine
from relay_operator.engine.entry import LARGEST, Entry
from relay_operator.engine.events import Note, noteworthy
from relay_operator.engine.flow import ActionT, FactsT, Flow, ObjT, ResultT, Turn
from relay_operator.engine.identity import RecordedElsewhereError
from relay_operator.engine.informer import keep_answer
from relay_operator.engine.leftover import Left, Leftover
from relay_operator.engine.leftovers import LeftoversFullError
from relay_operator.engine.memory import Memories, Memory, MemoryT
from relay_operator.engine.object_writer import ObjectWriter, WriteRefused
from relay_operator.engine.passes import Pass
from relay_operator.engine.persist import Recorded, Unwritten, never_taken, write_id
from relay_operator.engine.queue import Priority, Taken
from relay_operator.engine.report import Report, Return, Told, held, late_create
from relay_operator.engine.return_time import return_time
from relay_operator.engine.status import conditions_of, dumped, of_every_pass, status_patch
from relay_operator.engine.vanished import PERSIST_SECONDS
from relay_operator.observability.logs import LogContext, log_action

logger = logging.getLogger(__name__)

_KUBE_BACKOFF = Backoff(initial=0.1, limit=30.0)


@dataclass(slots=True)
class Controller(Generic[ObjT, FactsT, ActionT, ResultT, MemoryT]):
    """Takes the objects of one kind through passes; the queue never runs two passes over one object at a time."""

    engine: Engine
    flow: Flow[ObjT, FactsT, ActionT, ResultT, MemoryT]
    anothers: Callable[[ObjectKey, Entry], bool] | None = None
    """Whether another operator manages the object: to this one, it is as good as gone.

    If this one managed it until its spec changed, it has a last pass, which tells that.
    """
    memories: Memories[MemoryT] = field(init=False)

    def __post_init__(self) -> None:
        self.memories = Memories(self.flow.memory)

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        """Run one pass. The queue retries failures of the Kubernetes API; they lose nothing."""
        engine, key, started = self.engine, taken.key, self.engine.clock()
        left = self.memories.get(key)
        if left is not None and not await self._recorded_at_last(key, left):
            return
        entry = engine.cache.get(key)
        if left is not None and entry is not None and left.uid != entry.uid:
            if not await self._forget(key, left):
                return
            left = None
        is_anothers = entry is not None and self.anothers is not None and self.anothers(key, entry)
        if entry is None or (is_anothers and not _is_left_now(left, entry)):
            await self._forget(key, left)
            return
        memory = self.memories.of(key, entry.uid)
        turn = Turn(key, entry.uid, engine.wall_clock(), taken.priority, engine.served.outdated)
        outcome, wrote = "error", False
        with LogContext(kind=key.kind, namespace=key.namespace, name=key.name, uid=entry.uid):
            try:
                outcome, wrote = await self._pass(turn, entry, memory)
                memory.kube_failures = 0
                if is_anothers:
                    await self._forget(key, memory)
            except KubeError as error:
                self._not_taken(key, memory, error)
            finally:
                engine.on_pass(Pass(taken, outcome, engine.clock() - started, wrote))

    async def _forget(self, key: ObjectKey, memory: MemoryT | None) -> bool:
        """Drop what is remembered of the object; False if the API server has to be asked again for that."""
        try:
            await self.flow.forget(key, memory)
        except KubeError as error:
            if memory is not None:
                self._not_taken(key, memory, error)
            return False
        self.memories.drop(key)
        return True

    def _not_taken(self, key: ObjectKey, memory: MemoryT, error: KubeError) -> None:
        memory.kube_failures += 1
        delay = _KUBE_BACKOFF.after(memory.kube_failures, self.engine.retry_policy.random)
        self.engine.queue.add_after(key, delay, Priority.RETRY)
        if memory.unwritten is None:
            logger.info("the Kubernetes API did not take it: %s", error)
        else:
            paid = memory.unwritten.paid.cloud_id
            logger.warning("%s has %s, and its status does not say so yet: %s", key, paid, error)

    async def persist(self) -> None:
        """Wait until everything paid for is recorded, that of objects which are gone too; called before the end.

        An object in a pass is left to that pass, which records before it does anything else.
        """
        while left := self.memories.unwritten():
            for key, memory in left:
                if not self.engine.queue.is_working(key):
                    await self._recorded_at_last(key, memory)
            await self.engine.sleep(PERSIST_SECONDS)
        await self.engine.vanished.persist(self.engine.sleep)

    async def _recorded_at_last(self, key: ObjectKey, memory: MemoryT) -> bool:
        """Record what was paid for before anything else, even if the object is gone; False if that must be retried."""
        try:
            if memory.unwritten is not None:
                await self._record(key, memory, memory.unwritten)
        except KubeError as error:
            self._not_taken(key, memory, error)
        return memory.unwritten is None

    async def _pass(self, turn: Turn, entry: Entry, memory: MemoryT) -> tuple[str, bool]:
        if self._is_ending(turn):
            raise Unavailable(0, "Ending", "what could not be recorded is taken to its end first")
        writer = await self._writer(turn, entry)
        if len(entry.body) > LARGEST and not (entry.attempted or entry.cloud_id):
            problem = f"the object has more than {LARGEST} bytes: no status that tells an id would fit for certain"
            return await self._unreadable(turn, entry, writer, Reason.OBJECT_TOO_LARGE, problem)
        try:
            obj = self.flow.parse(entry.body)
        except ValidationError as invalid:
            return await self._unreadable(turn, entry, writer, Reason.UNREADABLE, unreadable.complaint(invalid))
        try:
            return await self._carried_out(turn, obj, memory, writer)
        except ValidationError as invalid:  # what no request can carry; a later pass may find something else
            await self._unreadable(turn, entry, writer, Reason.UNREADABLE, unreadable.complaint(invalid))
            raise
        except RecordedElsewhereError as elsewhere:
            return await self._unreadable(turn, entry, writer, Reason.IDENTITY_MISMATCH, str(elsewhere))
        except WriteRefused as refused:
            await self._tell_refused(turn, memory, writer, refused)
            raise
        except Conflict:
            if memory.kube_failures:  # the watch needs time to report what others wrote
                await writer.read()
            raise

    async def _tell_refused(self, turn: Turn, memory: MemoryT, writer: ObjectWriter, refused: WriteRefused) -> None:
        """Say what the API server refuses, in status, and in an Event, since status may be refused as well."""
        report = Report(None, ConditionType.STALLED, Reason.WRITE_REFUSED, refused.told, Return.NEVER, unseen=True)
        wrote = await unreadable.stall(writer, writer.latest(), report, turn.now)
        if wrote or memory.kube_failures == 0:
            self.engine.announce(turn.key, memory, Note("Warning", report.reason, refused.told))

    def _is_ending(self, turn: Turn) -> bool:
        """Whether a resource that status could not record is being ended, maybe since before this process began."""
        return not turn.key.vanished and self.engine.cache.get(turn.key._replace(vanished=turn.uid)) is not None

    async def _unreadable(
        self, turn: Turn, entry: Entry, writer: ObjectWriter, reason: Reason, problem: str
    ) -> tuple[str, bool]:
        cache, here = self.engine.cache, self.engine.installation.name

        async def release(metadata: ObjectMeta, left: tuple[Left, ...], hold: unreadable.Hold) -> None:
            own = tuple(each for each in left if each.id or cache.only_giver(turn.key, turn.uid, each.name, here))
            await self._leave(turn, own, hold)
            await self._release(turn, metadata, writer)

        return await unreadable.tell(writer, entry.body, reason, problem, turn.now, release)

    async def _carried_out(self, turn: Turn, obj: ObjT, memory: MemoryT, writer: ObjectWriter) -> tuple[str, bool]:
        flow, started, read = self.flow, self.engine.clock(), obj
        obj = flow.own(obj)
        metadata = obj.metadata
        facts = await flow.gather(turn, obj, memory)
        action = flow.plan(facts)
        intent = flow.intent(facts)
        if intent is not None and not finalizer.guarded(metadata, intent):
            await finalizer.guard(writer, metadata, intent)
        result = await flow.act(facts, action, memory, writer)
        was_there = await self._let_go(turn, facts, action, writer, obj)

        def telling(result: ResultT) -> Told:
            told = self._with_late(turn, metadata, flow.tell(turn, facts, action, result, memory))
            # A copy's status is about another object: the patch leads from there to the copy's own.
            return told if obj is read else replace(told, before=read.status)

        told = telling(result)
        if (paid := flow.paid(facts, result)) is not None:

            def instead(refused: KubeError) -> Told:
                why = f"status cannot be written, and what was made is ended: {refused}"
                return telling(flow.unrecorded(result, memory, why))

            patch = status_patch(told.before, told.after)
            memory.unwritten = Unwritten(writer, patch, partial(dumped, told.after), paid, instead)
            told, wrote = await self._record(turn.key, memory, memory.unwritten) or told, True
        else:
            wrote = await self._report(told, writer)
        if told.once_written is not None:
            told.once_written()
        deleting = metadata.deletion_timestamp is not None
        if wrote:
            self._announce(turn, told, deleting=deleting)
        memory.quiet_looks = 0 if wrote else memory.quiet_looks + 1
        if not isinstance(action, actions.LETTING_GO):
            self._come_back(turn, facts, told, memory, deleting=deleting)
        name = told.name or type(action).__name__
        if wrote or (was_there and name not in actions.QUIET):
            outcome, message = type(result).__name__, told.summary
            if told.report is not None:
                outcome, message = told.report.reason, message or told.report.message
            seconds = self.engine.clock() - started
            log_action(logger, message or name, action=name, outcome=outcome, duration_seconds=seconds)
        return name, wrote

    async def _let_go(self, turn: Turn, facts: FactsT, action: ActionT, writer: ObjectWriter, obj: ObjT) -> bool:
        """Do to the object itself what the action says; False if the object was already gone. Raises KubeError.

        The watch may report the end late, and webhooks may wake the object until then.
        """
        match action:
            case actions.Release():
                await self._leave(turn, self.flow.leaves(facts), partial(self._hold, turn, obj, writer))
                return await self._release(turn, obj.metadata, writer)
            case actions.Expire():
                await writer.delete()
            case _:
                pass
        return True

    async def _release(self, turn: Turn, metadata: ObjectMeta, writer: ObjectWriter) -> bool:
        """Remove the finalizer; False if the object was already gone. Raises KubeError."""
        was_there = await finalizer.release(writer, metadata)
        if metadata.finalizers == [FINALIZER] and not turn.key.vanished:
            # Nothing else holds the object. The watch may have begun too late to report its end, and objects
            # that it used wait for that.
            self.engine.cache.drop(turn.key, turn.uid)
            self.engine.leftovers.take_let_go(turn.uid)
            self.engine.queue.add(turn.key, Priority.REPAIR)
        return was_there

    async def _leave(self, turn: Turn, left: tuple[Left, ...], hold: unreadable.Hold) -> None:
        """Record what stays in the cloud before the finalizer is removed. Raises KubeError."""
        named = [each.id or each.name for each in left]
        try:
            needed = self._note(turn, left)
        except LeftoversFullError as full:
            await hold(held(str(full), named))
            raise
        try:
            await self._save(turn, needed)
        except KubeError:
            if trouble := self.engine.leftovers.trouble(needed):
                await hold(held(trouble, named))
            raise

    def _note(self, turn: Turn, left: tuple[Left, ...]) -> list[str]:
        """Note what stays in the cloud; returns the names of the ConfigMaps to save."""
        key = turn.key
        of, needed = f"{key.namespace}/{key.name}", list[str]()
        for each in left:
            told = {"id": each.id, "name": each.name, "organization": each.organization, "of": of, "uid": turn.uid}
            told |= {"endpoint": each.endpoint or self.engine.cache.endpoint(key), "part_of": each.part_of}
            record = Leftover(fate=each.fate, kind=key.kind, account=self._account(key), since=turn.now, **told)
            self.engine.leftovers.note(record)
            needed.append(record.config_map)
        return needed

    async def _save(self, turn: Turn, needed: list[str]) -> None:
        """Save what was noted; from then on the object's end is the operator's own doing. Raises KubeError."""
        if needed:
            await self.engine.leftovers.save(needed)
            self.engine.queue.add(self._account(turn.key), Priority.CHANGE)
        if not turn.key.vanished:
            self.engine.leftovers.lets_go(turn.uid)

    def _account(self, key: ObjectKey) -> ObjectKey:
        known = self.engine.cache.account_of(key)
        return known or ObjectKey(AccountKind.CLOUD_ACCOUNT, key.namespace, DEFAULT_NAME)

    async def _hold(self, turn: Turn, obj: ObjT, writer: ObjectWriter, report: Report) -> None:
        """Report that the object waits until what it leaves is recorded. Raises KubeError."""
        wanted = conditions_of(obj.status.conditions, report, turn.now)
        always = of_every_pass(obj.status, obj.metadata, wanted, turn.now, looked=False)
        told = self._with_late(turn, obj.metadata, Told(obj.status, obj.status.model_copy(update=always), report))
        if await self._report(told, writer):
            self._announce(turn, told, deleting=True)

    def _announce(self, turn: Turn, told: Told, *, deleting: bool) -> None:
        """Record an Event if the status reports something new."""
        note = noteworthy(told.before.conditions, told.after.conditions, deleting=deleting)
        if note is not None:
            self.engine.announce(turn.key, self.memories.of(turn.key, turn.uid), note)

    def _with_late(self, turn: Turn, metadata: ObjectMeta, told: Told) -> Told:
        """Add the condition `LateCreate` as long as a resource that was created too late exists."""
        late = self.engine.leftovers.late(turn.uid)
        others = [each for each in told.after.conditions if each.type != ConditionType.LATE_CREATE]
        if not late and len(others) == len(told.after.conditions):
            return told
        calls = self.engine.cache.called_by
        wanted = [late_create(one, reached=one.endpoint in {"", calls(one.account).of(one.kind)}) for one in late[:1]]
        shown = conditions.written(told.before.conditions, wanted, metadata.generation, turn.now)
        return replace(told, after=told.after.model_copy(update={"conditions": [*others, *shown]}))

    async def _record(self, key: ObjectKey, memory: MemoryT, unwritten: Unwritten) -> Told | None:
        """Record in status what was paid for, or have it ended; goes on if the pass is cancelled.

        Returns what to report instead if the id can never be written. Raises KubeError: the queue retries.
        """
        task = asyncio.create_task(self._recorded(key, memory, unwritten))
        self.engine.recording.add(task)
        task.add_done_callback(self.engine.recording.discard)
        await asyncio.wait({task})  # the task goes on if the pass is cancelled
        refusal, writer = task.result(), unwritten.writer
        if refusal is None:
            return None
        told = unwritten.instead(refusal)
        logger.error("what was made for %s cannot be recorded, and is ended: %s", key, refusal)
        await self._report(told, writer)
        return told

    async def _recorded(self, key: ObjectKey, memory: MemoryT, unwritten: Unwritten) -> KubeError | None:
        """Returns the error if the id can never be written, else None. Raises KubeError."""
        engine, paid, refusal = self.engine, unwritten.paid, None
        raw, after = unwritten.writer.latest(), unwritten.after
        try:
            recorded = await write_id(unwritten, engine.sleep, engine.retry_policy.random)
        except KubeError as error:
            if unwritten.paid.in_use or not never_taken(error):
                raise
            recorded, refusal = Recorded.REFUSED, error
        memory.unwritten = None
        match recorded:
            case Recorded.WRITTEN | Recorded.SOUGHT:
                return None
            case Recorded.GONE:
                await engine.vanished.hand_over(key, {**raw, "status": dict(after())})
            case Recorded.SUPERSEDED:
                await engine.vanished.hand_over(key, paid.alone(raw, after()), paid.cloud_id)
                engine.queue.add(key, Priority.CHANGE)  # to act on what the other process decided
            case Recorded.REFUSED:
                await engine.vanished.hand_over(key, paid.alone(raw, after()))
            case _ as never:
                assert_never(never)
        return refusal

    async def _report(self, told: Told, writer: ObjectWriter) -> bool:
        """Write status at most once, and only if something changed; returns whether it was written."""
        patch = status_patch(told.before, told.after)
        if not patch:
            return False
        try:
            await writer.status(patch)
        except NotFound:
            return False  # deleted meanwhile: the watch will report it
        return True

    def _come_back(self, turn: Turn, facts: FactsT, told: Told, memory: MemoryT, *, deleting: bool) -> None:
        engine, looks = self.engine, told.report.looks if told.report is not None else ()
        due = return_time(
            told,
            memory,
            turn.now,
            engine.retry_policy,
            engine.intervals,
            unread=facts.error is not None,
            deleting=deleting,
        )
        for seconds, priority in (*looks, *(() if due is None else (due,))):
            engine.queue.add_after(turn.key, seconds, priority)
        for moment in told.due:
            engine.queue.add_after(turn.key, (moment - turn.now).total_seconds(), Priority.CHANGE)

    async def _writer(self, turn: Turn, entry: Entry) -> ObjectWriter:
        engine = self.engine

        def keep(raw: JsonObject) -> None:
            keep_answer(engine.vanished, turn.key, raw)

        objects = await engine.vanished.objects(turn.key) if turn.key.vanished else engine.kube
        doubt = engine.served.doubt
        return ObjectWriter(objects, self.flow.type, turn.key, turn.uid, str(entry.version), keep, doubt, entry.body)


def _is_left_now(memory: Memory | None, entry: Entry) -> bool:
    """Whether this process managed the object until its spec changed, and its status does not tell of that.

    One that is being deleted is left as it is: a pass could release it, and only its new operator knows what uses it.
    """
    if memory is None or memory.uid != entry.uid or entry.deleting:
        return False
    return entry.status().get("observedGeneration") != entry.generation
