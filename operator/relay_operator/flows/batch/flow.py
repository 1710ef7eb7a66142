"""The flow of batches: records in, answers out, in rounds of parts."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from relay_client import BadRequest
from relay_kube.kube import ResourceType
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import DEFINITION, InferenceBatch, InferenceBatchStatus
from relay_operator.api.inferencebatch_spec import BatchDeletionPolicy
from relay_operator.api.meta import MOST_IN_A_ROW, CreateIntent, ObjectKey
from relay_operator.engine import identity
from relay_operator.engine.actions import Wait
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, place_of
from relay_operator.engine.kind import resource_type
from relay_operator.engine.leftover import Fate, Left
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import PaidFor
from relay_operator.engine.report import Report, Return, Told
from relay_operator.engine.status import conditions_of, of_every_pass, status_patch, whole_seconds
from relay_operator.flows.batch import actions, predicates
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.actions import Action
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import tag_of
from relay_operator.flows.batch.open_intent import open_intent, with_open_intent
from relay_operator.flows.batch.plan import plan
from relay_operator.flows.batch.report import doubts, report_of
from relay_operator.flows.batch.result import NotPaid, Paid, Result, Unknown
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.flows.batch.transitions import after, gives_up_at

_PROGRESS = frozenset({"requestCounts", "progressPercent", "usage", "cost", "parts", "conditions"})
"""Fields of status that change with every look at a running batch."""


@dataclass(frozen=True, slots=True)
class BatchFlow:
    """The `Flow` of batches."""

    gatherer: Gatherer
    actor: Actor
    transfers: Transfers
    retry_policy: RetryPolicy
    installation: Installation
    progress_seconds: float
    """Seconds between two writes that only report progress."""
    unreachable_after: int
    """Consecutive looks without an answer after which status says so."""
    clock: Callable[[], float] = time.monotonic

    @property
    def type(self) -> ResourceType:
        return resource_type(DEFINITION)

    def parse(self, body: bytes) -> InferenceBatch:
        return InferenceBatch.model_validate_json(body)

    def own(self, obj: InferenceBatch) -> InferenceBatch:
        return identity.own(obj, self.installation.name)

    def memory(self, uid: str) -> BatchMemory:
        return BatchMemory(uid)

    async def gather(self, turn: Turn, obj: InferenceBatch, memory: BatchMemory) -> Facts:
        facts = await self.gatherer.gather(turn, with_open_intent(obj, memory), memory)
        memory.intent = open_intent(facts)
        return facts

    def plan(self, facts: Facts) -> Action:
        return plan(facts.view)

    def intent(self, facts: Facts) -> CreateIntent | None:
        return facts.intent if facts.obj.status.create_token else open_intent(facts)

    async def act(self, facts: Facts, action: Action, memory: BatchMemory, writer: ObjectWriter) -> Result:
        return await self.actor.act(facts, action, memory, writer)

    def tell(self, turn: Turn, facts: Facts, action: Action, result: Result, memory: BatchMemory) -> Told:
        before, status = facts.obj.status, after(facts, action, result)
        report = report_of(facts, action, result, status, unreachable=memory.unanswered >= self.unreachable_after)
        due = self._due(facts, status)
        if report is None:  # the end of long work wakes the object, and another output one whose answers fit nowhere
            waits = isinstance(action, actions.Start) or action == Wait(Reason.OUTPUT_TOO_LARGE)
            silent = Report(None, None, Reason.UPLOADING, "", Return.NEVER) if waits else None
            return Told(before, before, silent, status.next_attempt_time, due)
        status = _told(facts, status, report, self.retry_policy)
        if isinstance(action, actions.Submit):  # its marker was written after the object was read
            before = before.model_copy(update={"parts": None})
        elif status != before and is_progress_alone(before, status):
            if self.clock() - memory.told_at < self.progress_seconds:
                status = before
            else:
                memory.told_at = self.clock()
        recorded = isinstance(action, actions.Record)
        written = (lambda: self.transfers.drop(facts.key)) if recorded else None
        return Told(before, status, report, status.next_attempt_time, due, once_written=written)

    def _due(self, facts: Facts, status: InferenceBatchStatus) -> tuple[datetime, ...]:
        spec = facts.obj.spec
        moments = (predicates.deadline(spec, status), predicates.expires_at(spec, status), status.retry_time)
        return tuple(moment for moment in moments if moment is not None and moment > facts.now)

    def paid(self, facts: Facts, result: Result) -> PaidFor | None:
        return PaidFor(result.batch.id, BatchDeletionPolicy.DISCARD) if isinstance(result, Paid) else None

    def leaves(self, facts: Facts) -> tuple[Left, ...]:
        """Batches that continue to run, by policy or because of `abandon`; of an unanswered create, the tag."""
        status = facts.obj.status
        place = place_of(status.identity)
        running = [Left(Fate.KEPT, part.batch_id or "", "", *place) for part in predicates.live(status)]
        tags = [str(tag_of(status.create_token or "", status, part)) for part in predicates.unanswered(status)]
        return (*running, *(Left(Fate.KEPT, "", tag, *place) for tag in tags))

    def unrecorded(self, result: Result, memory: BatchMemory, why: str) -> Result:
        # Another leader may not know yet that the batch is being ended: its marker leads it there.
        failed = NotPaid if self.actor.leading() else Unknown
        return failed(result.part, BadRequest("create_batch", why)) if isinstance(result, Paid) else result

    async def forget(self, key: ObjectKey, memory: BatchMemory | None) -> None:
        self.transfers.drop(key)


def _told(
    facts: Facts, status: InferenceBatchStatus, report: Report, retry_policy: RetryPolicy
) -> InferenceBatchStatus:
    """The status with conditions and the time of the next attempt."""
    before = facts.obj.status
    wanted = [*conditions_of(before.conditions, report, facts.now), *doubts(facts, status, report.reason)]
    always = of_every_pass(before, facts.obj.metadata, wanted, facts.now, looked=facts.error is None)
    return status.model_copy(update=always | _attempts(facts, status, report, retry_policy))


def _attempts(
    facts: Facts, status: InferenceBatchStatus, report: Report, retry_policy: RetryPolicy
) -> dict[str, object]:
    if report.retry is None:
        return {"failures": None, "next_attempt_time": None}
    failures = min((facts.obj.status.failures or 0) + 1, MOST_IN_A_ROW)
    due = whole_seconds(facts.now, retry_policy.wait(report.retry, report.retry_after, failures))
    last = gives_up_at(status)  # the last attempt is made then, whatever the backoff
    return {"failures": failures, "next_attempt_time": min(due, last) if last and last > facts.now else due}


def is_progress_alone(before: InferenceBatchStatus, after: InferenceBatchStatus) -> bool:
    """Whether only the progress of running batches differs, a change that may wait for others."""
    if not status_patch(before, after).keys() <= _PROGRESS:
        return False
    same_words = [(each.type, each.status, each.reason) for each in before.conditions] == [
        (each.type, each.status, each.reason) for each in after.conditions
    ]
    same_parts = [(part.state, part.batch_id, part.input_file_id) for part in before.parts or ()] == [
        (part.state, part.batch_id, part.input_file_id) for part in after.parts or ()
    ]
    return same_words and same_parts
