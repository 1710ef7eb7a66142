"""What a pass changes in status: the facts to record. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import Ending, InferenceBatchStatus, InputStatus, OutputStatus, PartStatus
from relay_operator.api.inferencebatchschedule import SCHEDULE_LABEL
from relay_operator.api.meta import CreateIntent
from relay_operator.engine.account import sent_with
from relay_operator.engine.actions import Wait
from relay_operator.flows.batch import actions, predicates
from relay_operator.flows.batch.actions import Action
from relay_operator.flows.batch.facts import Facts
from relay_operator.flows.batch.names import PartTag
from relay_operator.flows.batch.plan import BatchDemand
from relay_operator.flows.batch.result import (
    Begun,
    Cleared,
    Hindered,
    NotPaid,
    Paid,
    Published,
    Result,
    Unknown,
    Uploaded,
    WorkRefused,
    WorkTroubled,
)
from relay_wire.batches import Batch

Fields = dict[str, object]

GIVE_UP: Final = timedelta(minutes=5)
"""How long the end of an object waits for an unwritable output; the cloud keeps the results."""
_UNWRITABLE: Final = frozenset({Reason.OUTPUT_UNAVAILABLE, Reason.CREDENTIALS_INVALID})


def after(facts: Facts, action: Action, result: Result) -> InferenceBatchStatus:
    """The facts that status must have after the pass, without conditions and times of attempts."""
    status = facts.status
    match result:
        case Begun(intent):
            begun = _owner(intent) | {"start_time": facts.now, "round": 1, "attempt": 1}
            return _with(InferenceBatchStatus(), begun)
        case Paid(part, batch):
            paid = predicates.listed(part.model_copy(update={"sent_at": facts.now}), batch)
            fields: Fields = {"parts": _replaced(status, part, paid), "retry_time": None, "identity": facts.sent_for}
            return predicates.refreshed(_with(status, fields | _resumed(facts)))
        case Unknown(part, _):
            marked = part.model_copy(update={"sent_at": facts.now})
            return _with(status, {"parts": _replaced(status, part, marked), "identity": facts.sent_for})
        case NotPaid(part, error, vanished):
            if vanished:
                return _with(
                    status, {"parts": _replaced(status, part, part.model_copy(update={"input_file_id": None}))}
                )
            final = is_final(error.status)
            return _with(status, _refused(facts, Reason.BATCH_REFUSED, error.message)) if final else status
        case Hindered(WorkRefused(reason, message)):
            return _with(status, _unpublished(facts, reason, message))
        case Hindered(WorkTroubled(reason, message)) if gives_up(facts, reason):
            return _with(status, _unpublished(facts, reason, message))
        case Hindered(came):
            return _with(status, _awaiting_output(facts, came.reason))
        case _:
            return _with(status, _decided(facts, action))


def _anew(facts: Facts) -> str:
    """How to get the answers of a batch for which nothing was paid."""
    again = "delete this batch, and apply it again"
    if SCHEDULE_LABEL in facts.obj.metadata.labels:
        again = "correct output in the schedule's batchTemplate, for the next batch"
    return f"; nothing was paid: {again}"


def is_final(status: int | None) -> bool:
    """Whether the cloud will refuse this batch again, since its status says that the request is wrong."""
    return status in {400, 413, 422}


def gives_up(facts: Facts, reason: Reason) -> bool:
    """Whether the deletion has waited long enough for the output; people can no longer name another one."""
    until = gives_up_at(facts.status)
    late = until is not None and facts.now >= until and reason in _UNWRITABLE
    return facts.view.deleting and (late or reason in predicates.MISPLACED)


def gives_up_at(status: InferenceBatchStatus) -> datetime | None:
    """When the deletion stops to wait for the output; None if it does not wait."""
    return None if status.unpublished_since is None else predicates.later(status.unpublished_since, GIVE_UP)


def _resumed(facts: Facts) -> Fields:
    """With the first batch of a round: suspend cut off nothing of it, so none of its records gets one more attempt."""
    if any(part.batch_id for part in predicates.this_round(facts.status)):
        return {}
    return {"suspended": None, "start_time": facts.status.start_time or facts.now}


def _awaiting_output(facts: Facts, reason: Reason) -> Fields:
    if not facts.view.deleting or reason not in _UNWRITABLE:
        return {}
    return {"unpublished_since": facts.status.unpublished_since or facts.now}


def _decided(facts: Facts, action: Action) -> Fields:
    match action:
        case actions.Adopt():
            return _adopted(facts)
        case actions.Close():
            return _closed(facts)
        case actions.Record():
            return _recorded(facts)
        case actions.End():
            return {"ending": facts.ending}
        case actions.Cancel() | Wait(Reason.CANCELLING):
            # A round that suspend cuts off goes on later, though no attempt may be left.
            by_suspend = facts.view.demand is BatchDemand.SUSPEND and facts.ending is None
            return {"suspended": True} if by_suspend else {}
        case actions.Rest():
            return {"suspended": True, "start_time": None}
        case actions.Again():
            return _again(facts)
        case actions.BeginPublication():
            return {"output": OutputStatus(begun_at=facts.now), "suspended": None, "retry_time": None}
        case actions.Finish():
            return {"completion_time": facts.now, "ending": facts.ending or _deleted(facts)}
        case _:
            status = facts.status
            resumes = status.start_time is None and status.suspended and not facts.obj.spec.suspend
            return {"start_time": facts.now} if resumes else {}


def _adopted(facts: Facts) -> Fields:
    """Turn found batches into the parts that they were created for."""
    status, token = facts.status, facts.known_intent.token
    unanswered = predicates.unanswered(status)
    if status.create_token == token and unanswered:
        (batch,), lost = facts.found, unanswered[0]
        parts = _replaced(status, lost, predicates.listed(lost, batch))
        return dict(predicates.refreshed(_with(status, {"parts": parts})))
    return _rebuilt(facts, facts.found)


def _rebuilt(facts: Facts, found: Iterable[Batch]) -> Fields:
    """Rebuild the status from what the batches themselves say, and from the rows with a batch: a list may lack some.

    Of two batches of one part, that which status records is its own, else one that nobody cancelled: the other is a
    late create.
    """
    intent, status = facts.known_intent, facts.status
    rows = (status.parts or ()) if status.create_token == intent.token else ()
    tags = [(tag, batch) for batch in found if (tag := PartTag.of(batch, intent.token)) is not None]
    last = max((tag for tag, _ in tags), key=lambda tag: tag.round)
    number = max([last.round, *(row.round for row in rows)])
    tags.sort(key=lambda pair: (pair[0].part, pair[1].status not in predicates.CUT))
    parts = {
        (tag.round, tag.part): predicates.listed(PartStatus(round=tag.round, part=tag.part, records=0), batch)
        for tag, batch in tags
    }
    parts |= {(row.round, row.part): row for row in rows if row.batch_id}
    blank = [PartStatus(round=last.round, part=each, records=0) for each in range(1, last.parts + 1)]
    for row in (*rows, *blank):
        if row.round == number:
            parts.setdefault((row.round, row.part), row)
    # Who cancelled the round is lost: if it was a suspension, it may go on, and if not, the reason is found again.
    told = {batch.id: batch.status for _, batch in tags}
    cut = any(
        predicates.CUT & {row.state, told.get(row.batch_id or "")} for row in parts.values() if row.round == number
    )
    fields: Fields = {
        "parts": [parts[place] for place in sorted(parts)],
        "round": number,
        "attempt": last.attempt if number == last.round else status.attempt,
        "suspended": cut or None,
    }
    return dict(predicates.refreshed(_with(status, fields | _owner(intent))))


def _owner(intent: CreateIntent) -> Fields:
    return {
        "create_token": intent.token,
        "cloud_name": intent.name,
        "identity": intent.identity,
        "account": sent_with(intent),
        "start_time": intent.started_at,
    }


def _closed(facts: Facts) -> Fields:
    status = facts.status
    if status.create_token != facts.known_intent.token:
        # Its deadline must not end it before its output was looked at: it may be finished, and have lost its status.
        return {**_owner(facts.known_intent), "start_time": facts.now, "round": 1, "attempt": 1}
    lost = predicates.unanswered(status)[0]
    return {"parts": _replaced(status, lost, lost.model_copy(update={"sent_at": None}))}


def _again(facts: Facts) -> Fields:
    """Begin another attempt; after the last one, send only records without an answer."""
    status, limit = facts.status, predicates.record_retry(facts.obj.spec).max_attempts
    attempt = status.attempt or 1
    more = attempt < limit
    only_cut = bool(status.suspended) and not predicates.counted(status).failed  # an attempt is for what failed
    return {
        "round": (status.round or 1) + 1,
        "attempt": attempt + 1 if more and not only_cut else attempt,
        "only_unanswered": None if more else True,
        "start_time": status.start_time or facts.now,
    }


def _recorded(facts: Facts) -> Fields:
    match facts.came:
        case Uploaded():
            return _uploaded(facts, facts.came)
        case Published():
            return _published(facts, facts.came)
        case Cleared():
            return {"cleared": True}
        case WorkRefused(reason, message, problems) if facts.status.output is None:
            unpaid = reason in predicates.MISPLACED and predicates.nothing_sent(facts.status)
            return _refused(facts, reason, message + _anew(facts) * unpaid) | {"problems": list(problems) or None}
        case WorkRefused(reason, message, _):
            return _unpublished(facts, reason, message)
        case WorkTroubled(reason, message) if gives_up(facts, reason) and facts.status.completion_time is None:
            return _unpublished(facts, reason, message)
        case WorkTroubled(reason) if reason in predicates.MISPLACED:
            return {"output": None}  # nothing was written there, and the next place is checked like the first
        case WorkTroubled(reason):
            return _awaiting_output(facts, reason)
        case _:
            return {}


def _uploaded(facts: Facts, came: Uploaded) -> Fields:
    status = facts.status
    if not came.parts:
        return {"exhausted": True, "suspended": None}
    if all(part in (status.parts or ()) for part in came.parts):
        return {}  # already recorded, though the API server's answer was lost: `retried` must not count twice
    others = [part for part in status.parts or () if part.round != status.round]
    made_for = predicates.made_for(status, came.made_for)
    fields: Fields = {"parts": [*others, *came.parts], "identity": made_for}
    if not any(part.batch_id for part in came.parts):  # else suspend has cut off some of this round's records
        fields["suspended"] = None
    if status.round == 1:
        fields["input"] = InputStatus(digest=came.digest, records=came.records)
    elif len(others) == len(status.parts or ()):  # not if a vanished file was uploaded again
        fields["retried"] = (status.retried or 0) + came.retried or None
        fields["failure_reasons"] = list(came.reasons) or None
        if came.retried:
            fields["retry_time"] = predicates.retry_time(facts.obj.spec, status.attempt or 2, facts.now)
    return dict(predicates.refreshed(_with(status, fields)))


def _published(facts: Facts, came: Published) -> Fields:
    status = facts.status
    begun = status.output.begun_at if status.output is not None else facts.now
    fields: Fields = {
        "output": came.output.model_copy(update={"begun_at": begun}),
        "completion_time": came.at,
        "problems": list(came.problems) or status.problems,
        "failure_reasons": list(came.reasons) or None,
        # That of the publication: a rebuilt status may have taken a finished batch for a late one.
        "ending": came.ending or _shortfall(facts, came) or _deleted(facts),
    }
    if came.usage is not None and status.usage is None:
        fields |= {"usage": came.usage, "cost": predicates.dollars(came.usage.cost_nano_usd)}
    counts = came.counts
    percent = 100 * (counts.completed + counts.failed) // counts.total if counts.total else 100
    return {**fields, "request_counts": counts, "progress_percent": percent}


def _shortfall(facts: Facts, came: Published) -> Ending | None:
    """Why the published output is incomplete, or has too many failures; None if it is as desired."""
    if facts.view.deleting:
        return None
    if came.lost:
        text = f"the cloud has lost {came.lost} of its files with results; what it has is published"
        return Ending(reason=Reason.RESULTS_LOST, message=text)
    if came.unanswered:
        text = f"{came.unanswered} of {came.counts.total} records have no answer in the cloud's files"
        if predicates.unread(came.problems):
            text += ", or none that can be published (status.problems)"
        text += ": the files with results stay there (status.parts)"
        return Ending(reason=Reason.RESULTS_LOST, message=text)
    too_many = predicates.too_many_failures(facts.obj.spec, came.counts)
    return None if too_many is None else Ending(reason=Reason.TOO_MANY_FAILURES, message=too_many)


def _deleted(facts: Facts) -> Ending | None:
    if not facts.view.deleting:
        return None
    return Ending(reason=Reason.DELETING, message="it was deleted before it was finished")


def _refused(facts: Facts, reason: Reason, message: str) -> Fields:
    """End a batch that cannot be sent: what exists of it is ended as after a deadline."""
    return {"ending": facts.status.ending or Ending(reason=reason, message=message[:1024])}


def _unpublished(facts: Facts, reason: Reason, message: str) -> Fields:
    """End a batch whose results stay in the cloud: none of its files are deleted."""
    ending = Ending(reason=reason, message=message[:1024])
    return {"ending": ending, "completion_time": facts.now, "cleared": True}


def _replaced(status: InferenceBatchStatus, old: PartStatus, new: PartStatus) -> list[PartStatus]:
    place = old.round, old.part
    return [new if (part.round, part.part) == place else part for part in status.parts or ()]


def _with(status: InferenceBatchStatus, fields: Fields) -> InferenceBatchStatus:
    return status.model_copy(update=fields)
