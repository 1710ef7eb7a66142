"""One pass over one object, in order: gather, plan, act, report, come back later."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Generic, TypeVar, assert_never

from relay_client.errors import CloudError
from relay_client.errors import NotFound as CloudNotFound
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import CommonStatus, WorkloadSpec
from relay_operator.engine.backoff import Backoff, jittered
from relay_operator.engine.cache import Cache
from relay_operator.engine.entry import Entry
from relay_operator.engine.events import Recorder, noteworthy
from relay_operator.engine.informer import keep_answer
from relay_operator.engine.kube import Conflict, JsonObject, Kube, KubeError, NotFound
from relay_operator.engine.passes import Pass
from relay_operator.engine.queue import Priority, Queue, Taken
from relay_operator.flows.managed import actions, predicates
from relay_operator.flows.managed.act import Actor
from relay_operator.flows.managed.connection import ConnectionWriter
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.gather import Gatherer, UnreadableObjectError
from relay_operator.flows.managed.memory import Memories, Memory
from relay_operator.flows.managed.plan import plan
from relay_operator.flows.managed.report import Report, Return, report_of
from relay_operator.flows.managed.resource import ExternalResource, Look
from relay_operator.flows.managed.result import Accepted, Result
from relay_operator.flows.managed.status import RetryPolicy, new_status, status_patch
from relay_operator.observability.logs import log_action, log_context

SpecT = TypeVar("SpecT", bound=WorkloadSpec)
StatusT = TypeVar("StatusT", bound=CommonStatus)
ObsT = TypeVar("ObsT")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PollIntervals:
    """When objects are looked at again. Seconds."""

    transition: float
    settled: float
    jitter: float
    unreachable_after: int
    """Looks in a row without an answer after which an object says so."""
    persist: float = 600.0
    """How long the id of something just paid for is tried to be written."""


@dataclass(slots=True)
class Reconciler(Generic[SpecT, StatusT, ObsT]):
    """Reconciles the objects of one kind. Never two passes over one object at a time: the queue sees to that."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    kube: Kube
    cache: Cache
    queue: Queue[ObjectKey]
    gatherer: Gatherer[SpecT, StatusT, ObsT]
    actor: Actor[SpecT, StatusT, ObsT]
    connections: ConnectionWriter
    recorder: Recorder
    retry_policy: RetryPolicy
    intervals: PollIntervals
    wall_clock: Callable[[], datetime]
    on_pass: Callable[[Pass], None]
    memories: Memories = field(default_factory=Memories)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def reconcile(self, taken: Taken[ObjectKey]) -> None:
        """One pass. Failures of the Kubernetes API are retried by the queue; nothing is lost by them."""
        key, started = taken.key, self.clock()
        entry = self.cache.get(key)
        if entry is None:
            self.memories.drop(key)
            return
        memory = self.memories.of(key, entry.uid)
        outcome, wrote = "error", False
        with log_context(kind=key.kind, namespace=key.namespace, name=key.name, uid=entry.uid):
            try:
                outcome, wrote = await self._pass(taken, entry, memory)
                memory.kube_failures = 0
            except KubeError as error:
                memory.kube_failures += 1
                self.queue.add_after(key, self._kube_backoff(memory), Priority.RETRY)
                logger.info("the Kubernetes API did not take it: %s", error)
            except UnreadableObjectError as error:
                logger.error("the object cannot be read: %s", error)  # noqa: TRY400
            finally:
                self.on_pass(Pass(taken, outcome, self.clock() - started, wrote))

    async def _pass(self, taken: Taken[ObjectKey], entry: Entry, memory: Memory) -> tuple[str, bool]:
        known = memory.account is not None  # what changed while no operator ran, no webhook could tell
        look = Look.ROUTINE if taken.priority >= Priority.POLL else Look.EXACT
        facts = await self.gatherer.gather(taken.key, entry, memory, self.wall_clock(), look)
        action = plan(facts.view)
        await self.actor.protect(facts)
        started = self.clock()
        result = await self.actor.act(facts, action, memory)
        unreachable = memory.unanswered >= self.intervals.unreachable_after
        report = report_of(self.resource, facts, action, result, unreachable=unreachable)
        report = await self._connect(facts, report, memory, look)
        status = facts.obj.status
        if report is not None:
            status = new_status(self.resource, facts, action, result, report, self.retry_policy)
        wrote = await self._report(facts, action, result, status)
        changed = status.state != facts.obj.status.state and status.state in self.resource.told_by_webhooks
        if changed and known and taken.priority is Priority.POLL:
            self.gatherer.accounts.found_by_polling(facts.usable_account)
        note = noteworthy(facts.obj.status.conditions, status.conditions, deleting=facts.view.deleting)
        if wrote and note is not None:
            self.recorder.record(facts.key, facts.obj.metadata.uid, note)
        memory.quiet_looks = 0 if wrote else memory.quiet_looks + 1
        self._come_back(facts, action, result, status, report, memory)
        name = type(action).__name__
        if wrote or not isinstance(action, actions.Keep | actions.Wait | actions.Stall | actions.Ignore):
            message = report.message if report is not None else name
            outcome = report.reason if report is not None else type(result).__name__
            log_action(logger, message or name, action=name, outcome=outcome, duration_seconds=self.clock() - started)
        return name, wrote

    async def _connect(
        self, facts: Facts[SpecT, StatusT, ObsT], report: Report | None, memory: Memory, look: Look
    ) -> Report | None:
        """Tell others where it is reached; what is in the way is told instead of Ready."""
        if facts.observed is None or report is None or facts.view.deleting:
            return report
        connection, uid = facts.obj.spec.connection, facts.obj.metadata.uid
        if predicates.refresh_asked(facts.obj):
            memory.connections.clear()
        intact = look is Look.EXACT or await self.connections.intact(facts.key, uid, connection, memory)
        reached = self.resource.reached(facts.observed)
        if reached is None:
            # Gone by another hand, and this look does not tell what was in it: an exact one does.
            return report if intact else replace(report, back=Return.SOON)
        problem = await self.connections.write(facts.key, uid, connection, reached, memory)
        if problem is None:
            return report
        return replace(
            report, ready="False", trouble=ConditionType.STALLED, reason=Reason.CONNECTION_REFUSED, message=problem
        )

    async def _report(
        self, facts: Facts[SpecT, StatusT, ObsT], action: actions.Action, result: Result[ObsT], status: StatusT
    ) -> bool:
        """At most one status write, and only if something changed."""
        patch = status_patch(facts.obj, status)
        if not patch:
            return False
        preconditions: JsonObject = {"uid": facts.obj.metadata.uid}
        if isinstance(action, actions.CloseIntent):  # another replica may have learned what became of it
            preconditions["resourceVersion"] = facts.obj.metadata.resource_version
        body: JsonObject = {"metadata": preconditions, "status": patch}
        if isinstance(result, Accepted):
            await self._persist(facts, result.resource, body)
        else:
            await self._write(facts.key, body)
        return True

    async def _write(self, key: ObjectKey, body: JsonObject) -> None:
        try:
            raw = await self.kube.patch(self.resource.type, key.namespace, key.name, body, subresource="status")
        except NotFound:
            return  # deleted meanwhile: the watch will tell
        keep_answer(self.cache, self.queue, key, raw)

    async def _persist(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, body: JsonObject) -> None:
        """Write the id of something that is paid for, through conflicts and outages, even while shutting down."""
        task = asyncio.ensure_future(self._persist_patiently(facts, observed, body))
        await asyncio.shield(task)

    async def _persist_patiently(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, body: JsonObject) -> None:
        deadline, failures = self.clock() + self.intervals.persist, 0
        while True:
            try:
                raw = await self._written_while_it_lives(facts, body)
            except KubeError:
                if self.clock() >= deadline:
                    raise
            else:
                if raw is None:  # nobody else could ever end what was just made
                    await self._terminate_ownerless(facts, observed)
                else:
                    keep_answer(self.cache, self.queue, facts.key, raw)
                return
            failures += 1
            await self.sleep(_PERSIST_BACKOFF.after(failures, self.retry_policy.random))

    async def _written_while_it_lives(self, facts: Facts[SpecT, StatusT, ObsT], body: JsonObject) -> JsonObject | None:
        """The object after the write; None where it is gone, or another took its name. Raises KubeError."""
        key = facts.key
        try:
            return await self.kube.patch(self.resource.type, key.namespace, key.name, body, subresource="status")
        except NotFound:
            return None
        except Conflict:
            if await self._lives(facts):
                raise
            return None

    async def _lives(self, facts: Facts[SpecT, StatusT, ObsT]) -> bool:
        try:
            raw = await self.kube.get(self.resource.type, facts.key.namespace, facts.key.name)
        except NotFound:
            return False
        metadata = raw.get("metadata")
        return isinstance(metadata, dict) and metadata.get("uid") == facts.obj.metadata.uid

    async def _terminate_ownerless(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT) -> None:
        cloud_id, _ = self.resource.identity(observed)
        logger.warning("the object vanished while %s was created for it: terminating that", cloud_id)
        deadline, failures = self.clock() + self.intervals.persist, 0
        while True:
            try:
                await self.resource.delete(facts.usable_account.cloud, cloud_id)
            except CloudError as error:
                if isinstance(error, CloudNotFound):
                    return
                if self.clock() >= deadline:
                    logger.error("%s is left in the cloud without an owner: %s", cloud_id, error)  # noqa: TRY400
                    return
                failures += 1
                await self.sleep(_PERSIST_BACKOFF.after(failures, self.retry_policy.random))
            else:
                return

    def _come_back(
        self,
        facts: Facts[SpecT, StatusT, ObsT],
        action: actions.Action,
        result: Result[ObsT],
        status: StatusT,
        report: Report | None,
        memory: Memory,
    ) -> None:
        key, cloud_id = facts.key, self._new_id(result)
        if cloud_id and facts.usable_account.unclaimed.discard(cloud_id):
            self.queue.add(key, Priority.EVENT)  # a webhook was faster than the create's answer
            return
        if isinstance(action, actions.Release | actions.Ignore | actions.Expire):
            return
        due = self._due(facts, status, report, memory)
        if due is not None:
            self.queue.add_after(key, *due)
        if facts.decided_in is not None and isinstance(action, actions.Wait):
            self.queue.add_after(key, facts.decided_in, Priority.RETRY)
        known = predicates.deadlines(facts.obj.spec, facts.obj.status)
        for moment in predicates.deadlines(facts.obj.spec, status):
            if moment > facts.now or moment not in known:  # one that had passed before was part of this decision
                self.queue.add_after(key, (moment - facts.now).total_seconds(), Priority.CHANGE)

    def _new_id(self, result: Result[ObsT]) -> str:
        return self.resource.identity(result.resource)[0] if isinstance(result, Accepted) else ""

    def _due(
        self, facts: Facts[SpecT, StatusT, ObsT], status: StatusT, report: Report | None, memory: Memory
    ) -> tuple[float, Priority] | None:
        """Seconds until the next pass, and how urgent it is."""
        if report is None and facts.error is not None:
            return self.retry_policy.quick.after(memory.unanswered, self.retry_policy.random), Priority.RETRY
        if report is None or report.pace is not None or report.next_attempt is not None:
            agreed = status.next_attempt_time or facts.now
            return max((agreed - facts.now).total_seconds(), 0), Priority.RETRY
        match report.back:
            case Return.NEVER:
                return None
            case Return.SOON:
                return 0.0, Priority.DELETE if facts.view.deleting else Priority.CHANGE
            case Return.SHORTLY:
                return min(_SHORTLY * 2 ** min(memory.quiet_looks, 16), self.intervals.transition), Priority.RETRY
            case Return.TRANSITION:
                interval = min(self.intervals.transition * 2 ** min(memory.quiet_looks, 16), self.intervals.settled)
                return jittered(interval, self.intervals.jitter, self.retry_policy.random), Priority.RETRY
            case Return.SETTLED:
                return jittered(self.intervals.settled, self.intervals.jitter, self.retry_policy.random), Priority.POLL
            case _ as never:
                assert_never(never)

    def _kube_backoff(self, memory: Memory) -> float:
        return _KUBE_BACKOFF.after(memory.kube_failures, self.retry_policy.random)


_SHORTLY = 0.5
_PERSIST_BACKOFF = Backoff(initial=0.1, limit=5.0)
_KUBE_BACKOFF = Backoff(initial=0.1, limit=30.0)
