"""One pass over one batch, in order: gather, plan, act, report, come back later."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.backoff import Backoff, jittered
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.events import Recorder, noteworthy
from relay_operator.engine.informer import keep_answer
from relay_operator.engine.kube import JsonObject, Kube, KubeError, NotFound
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.flows.batch import actions, predicates
from relay_operator.flows.batch.act import BATCHES, Actor
from relay_operator.flows.batch.actions import Action
from relay_operator.flows.batch.facts import Facts, Memory
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.plan import plan
from relay_operator.flows.batch.report import report_of
from relay_operator.flows.batch.result import Paid, Result
from relay_operator.flows.batch.status import is_progress_alone, parts_of, status_patch, told
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.flows.batch.transitions import after
from relay_operator.flows.managed.gather import UnreadableObjectError
from relay_operator.flows.managed.reconciler import PollIntervals
from relay_operator.flows.managed.report import Report, Return
from relay_operator.flows.managed.status import RetryPolicy
from relay_operator.observability.logs import log_action, log_context

logger = logging.getLogger(__name__)

_QUIET = (actions.Keep, actions.Wait, actions.Stall, actions.Ignore)
_SHORTLY = 0.5
_PERSIST_BACKOFF = Backoff(initial=0.1, limit=5.0)
_KUBE_BACKOFF = Backoff(initial=0.1, limit=30.0)


@dataclass(slots=True)
class BatchReconciler:
    """A `KindReconciler`. Never two passes over one object at a time: the queue sees to that."""

    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    gatherer: Gatherer
    actor: Actor
    transfers: Transfers
    recorder: Recorder
    retry_policy: RetryPolicy
    intervals: PollIntervals
    progress_seconds: float
    """Between two writes that tell of progress alone."""
    wall_clock: Callable[[], datetime]
    on_pass: Callable[[Pass], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _memories: dict[ObjectKey, Memory] = field(default_factory=dict)

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        """One pass. Failures of the Kubernetes API are retried by the queue; nothing is lost by them."""
        key, started = taken.key, self.clock()
        entry = self.cache.get(key)
        if entry is None:
            self._memories.pop(key, None)
            self.transfers.drop(key)
            return
        memory = self._memory(key, entry)
        outcome, wrote = "error", False
        with log_context(kind=key.kind, namespace=key.namespace, name=key.name, uid=entry.uid):
            try:
                outcome, wrote = await self._pass(taken, entry, memory)
                memory.kube_failures = 0
            except KubeError as error:
                memory.kube_failures += 1
                delay = _KUBE_BACKOFF.after(memory.kube_failures, self.retry_policy.random)
                self.queue.add_after(key, delay, Priority.RETRY)
                logger.info("the Kubernetes API did not take it: %s", error)
            except UnreadableObjectError as error:
                logger.error("the object cannot be read: %s", error)  # noqa: TRY400
            finally:
                self.on_pass(Pass(taken, outcome, self.clock() - started, wrote))

    async def _pass(self, taken: Taken[ObjectKey], entry: Entry, memory: Memory) -> tuple[str, bool]:
        exact = taken.priority < Priority.RETRY
        facts = await self.gatherer.gather(taken.key, entry, memory, self.wall_clock(), exact=exact)
        action = plan(facts.view)
        await self.actor.protect(facts)
        started = self.clock()
        result = await self.actor.act(facts, action, memory)
        status = after(facts, action, result)
        unreachable = memory.unanswered >= self.intervals.unreachable_after
        report = report_of(facts, action, result, status, unreachable=unreachable)
        wrote = False
        if report is not None:
            status = told(facts, status, report, self.retry_policy)
            wrote = await self._report(facts, action, result, status, memory)
            note = noteworthy(facts.obj.status.conditions, status.conditions, deleting=facts.view.deleting)
            if wrote and note is not None:
                self.recorder.record(facts.key, facts.obj.metadata.uid, note)
        if isinstance(action, actions.Record):
            self.transfers.drop(facts.key)  # only once it is written down
        memory.quiet_looks = 0 if wrote else memory.quiet_looks + 1
        self._come_back(facts, action, status, report, memory)
        name = type(action).__name__
        if wrote or not isinstance(action, _QUIET):
            message = report.message if report is not None else name
            outcome = report.reason if report is not None else type(result).__name__
            log_action(logger, message or name, action=name, outcome=outcome, duration_seconds=self.clock() - started)
        return name, wrote

    async def _report(
        self, facts: Facts, action: Action, result: Result, status: InferenceBatchStatus, memory: Memory
    ) -> bool:
        """At most one status write, only if something changed, and progress alone not too often."""
        patch = status_patch(facts.obj.status, status)
        if isinstance(action, actions.Submit):  # its marker was written since the object was read
            patch["parts"] = parts_of(status)
        if not patch:
            return False
        if is_progress_alone(facts.obj.status, status, patch):
            if self.clock() - memory.told_at < self.progress_seconds:
                return False
            memory.told_at = self.clock()
        body: JsonObject = {"metadata": {"uid": facts.obj.metadata.uid}, "status": patch}
        if isinstance(result, Paid):
            await asyncio.shield(asyncio.ensure_future(self._persist(facts, result, body)))
        else:
            await self._write(facts.key, body)
        return True

    async def _write(self, key: ObjectKey, body: JsonObject) -> bool:
        """Whether the object is still there."""
        try:
            raw = await self.kube.patch(BATCHES, key.namespace, key.name, body, subresource="status")
        except NotFound:
            return False  # deleted meanwhile: the watch will tell
        keep_answer(self.cache, self.queue, key, raw)
        return True

    async def _persist(self, facts: Facts, paid: Paid, body: JsonObject) -> None:
        """Write the id of something that is paid for, through conflicts and outages, even while shutting down.

        Where it cannot be written, the marker of the create stays, and the batch is found by its tag.
        """
        deadline, failures = self.clock() + self.intervals.persist, 0
        while True:
            try:
                if not await self._write(facts.key, body):  # nobody else could ever end what was just made
                    await self.actor.cancel_ownerless(facts, paid.batch.id)
            except KubeError:
                if self.clock() >= deadline:
                    raise
            else:
                return
            failures += 1
            await self.sleep(_PERSIST_BACKOFF.after(failures, self.retry_policy.random))

    def _come_back(
        self, facts: Facts, action: Action, status: InferenceBatchStatus, report: Report | None, memory: Memory
    ) -> None:
        if isinstance(action, actions.Release | actions.Ignore | actions.Expire):
            return
        due = self._due(facts, status, report, memory)
        if due is not None and not isinstance(action, actions.Start):  # its end wakes the object
            self.queue.add_after(facts.key, *due)
        spec = facts.obj.spec
        for moment in (predicates.deadline(spec, status), predicates.expires_at(spec, status), status.retry_time):
            if moment is not None and moment > facts.now:
                self.queue.add_after(facts.key, (moment - facts.now).total_seconds(), Priority.CHANGE)

    def _due(
        self, facts: Facts, status: InferenceBatchStatus, report: Report | None, memory: Memory
    ) -> tuple[float, Priority] | None:
        """Seconds until the next pass, and how urgent it is."""
        if report is None and facts.error is not None:
            return self.retry_policy.quick.after(memory.unanswered, self.retry_policy.random), Priority.RETRY
        if report is None or report.pace is not None:
            agreed = status.next_attempt_time or facts.now
            return max((agreed - facts.now).total_seconds(), 0), Priority.RETRY
        match report.back:
            case Return.NEVER:
                return None
            case Return.SOON:
                return 0.0, Priority.DELETE if facts.view.deleting else Priority.CHANGE
            case Return.SHORTLY:
                return min(_SHORTLY, self.intervals.transition), Priority.RETRY
            case Return.TRANSITION:
                interval = min(self.intervals.transition * 2 ** min(memory.quiet_looks, 16), self.intervals.settled)
                return jittered(interval, self.intervals.jitter, self.retry_policy.random), Priority.RETRY
            case Return.SETTLED:
                return jittered(self.intervals.settled, self.intervals.jitter, self.retry_policy.random), Priority.POLL
            case _ as never:
                assert_never(never)

    def _memory(self, key: ObjectKey, entry: Entry) -> Memory:
        memory = self._memories.get(key)
        if memory is None or memory.uid != entry.uid:
            memory = self._memories[key] = Memory(entry.uid)
        return memory
