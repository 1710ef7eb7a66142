"""What to report of an object, and when to come back: one table for results, one for actions. Pure."""

from dataclasses import replace
from typing import assert_never

from relay_client import errors
from relay_client.errors import CloudError, Outcome, clause
from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import rfc3339
from relay_operator.api.workload import SpecT, StatusT, WorkloadSpec
from relay_operator.engine.account import NOT_ASKED, AccountReady, AccountRefused, AccountWaiting
from relay_operator.engine.actions import Keep, Nothing, Stall, Wait
from relay_operator.engine.commands import annotate
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.report import (
    Report,
    RetryKind,
    Return,
    blind,
    deletion_waits,
    disabled,
    held_by,
    outdated,
    paused,
    refused,
    unknown,
    without_account,
)
from relay_operator.flows.managed import actions, blue_green_report, predicates, recovery
from relay_operator.flows.managed.abilities import brought_in, shown_once
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.blue_green import serving
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import former
from relay_operator.flows.managed.funds_report import (
    held_back,
    kept_stopped,
    short_of_funds,
    with_excess,
)
from relay_operator.flows.managed.plan import plan
from relay_operator.flows.managed.progress_report import progressing
from relay_operator.flows.managed.proposal import proposal, sentence
from relay_operator.flows.managed.resource import Change, ObsT
from relay_operator.flows.managed.result import Accepted, OutcomeUnknown, Rejected, Result, Sent, Switched
from relay_operator.flows.managed.view import Former, Gate, Recovery, Seen, Undecided, Value

_OF_OTHERS = frozenset(
    {
        Reason.REFERENCE_NOT_FOUND,
        Reason.REFERENCE_NOT_READY,
        Reason.REFERENCE_DELETING,
        Reason.REFERENCE_OTHER_ACCOUNT,
    }
)

_ABOUT_TO_ACT = (Wait(Reason.BACK_OFF), Wait(Reason.REPLACING))
_FORMER_ONES = "former ones are being deleted"
_LOST = f", and its answer is lost: it is not sent again unless {meta.RESTARTED_AT} gets another value"
_ANOTHER = "what it is made from has changed: another is made, and this one kept as long as something uses it"


def report_of(
    facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], *, unreachable: bool
) -> Report | None:
    """What to write; None leaves status as it is. `unreachable`: the cloud left too many looks in a row unanswered."""
    match result:
        case Sent() | Rejected() if isinstance(action, actions.EndFormer):
            return _former_asked(facts, result)
        case Rejected(error):
            return _rejected(facts, error)
        case OutcomeUnknown(error):
            return _unknown(facts, action, error)
        case Switched(observed):
            return replace(progressing(facts, observed), back=Return.SOON)
        case Accepted(observed) if isinstance(action, actions.Adopt):
            return _adopted(facts, facts.resource.detail(observed))
        case Accepted(observed):
            return _created(facts, observed)
        case Sent() if isinstance(action, actions.Discard):
            message = "the answer to the create is lost, and its value with it: the resource is ended and created again"
            return Report("False", ConditionType.RECONCILING, Reason.RECREATING, message, Return.SHORTLY)
        case Sent(change):
            return _sent(facts, change, lost=result.lost)
        case Nothing():
            return _decided(facts, action, unreachable=unreachable)
        case _ as never:
            assert_never(never)


def _former_asked(facts: Facts[SpecT, StatusT, ObsT], result: Sent | Rejected) -> Report | None:
    """The report after the cloud was asked to end a former resource; if it refused, it is the others' turn."""
    if isinstance(result, Rejected):
        return None if _ends_next(facts) else _of_the_present(facts, Return.SOON, Former.REFUSED)
    return _of_the_present(facts, Return.SHORTLY)


def _ends_next(facts: Facts[SpecT, StatusT, ObsT]) -> bool:
    """Whether the next pass comes at once, and ends or stops the present resource of a deleted object.

    That pass says what became of both; until then, the status keeps what it says of them.
    """
    agreed, otherwise = facts.obj.status.next_attempt_time, plan(replace(facts.view, former=Former.REFUSED))
    at_once = (agreed is None or agreed <= facts.now) and not predicates.refresh_asked(facts.obj)
    return at_once and facts.view.deleting and isinstance(otherwise, actions.Delete | actions.Update)


def _of_a_deletion(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Report:
    """The report, which says of an object in deletion that this is what it waits for."""
    return replace(report, message=deletion_waits(report.message)) if facts.view.deleting else report


def _rejected(facts: Facts[SpecT, StatusT, ObsT], error: CloudError) -> Report:
    report = _of_a_deletion(facts, refused(error))
    if isinstance(error, errors.CapacityExhausted):
        text = f"{error.code}: {error.message}"
        return replace(report, extra=(Wanted(ConditionType.CAPACITY_AVAILABLE, "False", report.reason, text),))
    return short_of_funds(facts, report) if isinstance(error, errors.PaymentRequired) else report


def _unknown(facts: Facts[SpecT, StatusT, ObsT], action: Action, error: CloudError) -> Report:
    if isinstance(action, actions.Resend):
        return _resent(facts, error)
    message = f"{error}; finding out whether it was created"
    return unknown(Reason.CREATE_OUTCOME_UNKNOWN, message, Return.SOON)


def _resent(facts: Facts[SpecT, StatusT, ObsT], error: CloudError) -> Report:
    """A name clash proves that the resource exists, under an unknown id; any other error proves nothing.

    A refusal is repeated as that of a first create.
    """
    if isinstance(error, errors.Conflict):
        return replace(
            _outcome_unknown(facts, f"the cloud says that the name is taken ({error})"), retry=RetryKind.SLOW
        )
    report = unknown(Reason.CREATE_OUTCOME_UNKNOWN, f"{error}; it is sent again")
    if error.outcome is Outcome.UNKNOWN:
        return replace(report, retry=RetryKind.QUICK)
    why = _rejected(facts, error)
    return replace(report, retry=why.retry, retry_after=why.retry_after, extra=(*report.extra, *why.extra))


def _created(facts: Facts[SpecT, StatusT, ObsT], observed: ObsT) -> Report:
    """Ready at once only if no change is left to make, such as a stop."""
    if not predicates.changes_of(facts.resource, facts.obj, observed, facts.now):
        report = progressing(facts, observed)
        if serving(facts.obj.status) is not None and report.ready == "True":
            return blue_green_report.replacing(facts.resource.detail(observed))
        return replace(report, back=Return.SOON) if former(facts.obj.status) else report
    return Report("False", ConditionType.RECONCILING, Reason.CREATING, facts.resource.detail(observed), Return.SOON)


def _adopted(facts: Facts[SpecT, StatusT, ObsT], detail: str) -> Report:
    """What was found may still have to be changed or ended: the next pass sees to that."""
    reason = Reason.DELETING if facts.view.deleting else Reason.ADOPTING
    return Report("False", ConditionType.RECONCILING, reason, f"found; {detail}", Return.SOON)


def _sent(facts: Facts[SpecT, StatusT, ObsT], change: Change | None, *, lost: bool) -> Report:
    if change is not None:
        back = Return.TRANSITION if change.told_by_webhook else Return.SHORTLY
        message = f"{change.name} sent to the cloud{_LOST if lost else ''}"
        return Report("False", ConditionType.RECONCILING, change.reason, message, back)
    again = Reason.RECREATING if serving(facts.obj.status) is None else Reason.REPLACING
    reason = again if facts.view.replacing and not facts.view.deleting else Reason.DELETING
    return Report("False", ConditionType.RECONCILING, reason, "termination sent to the cloud")


def _decided(facts: Facts[SpecT, StatusT, ObsT], action: Action, *, unreachable: bool) -> Report | None:
    of_two = blue_green_report.of_action(facts, action)
    if of_two is not None:
        return of_two
    match action:
        case Wait(reason):
            return _searched(facts, _waiting(facts, reason, unreachable=unreachable))
        case Stall(reason):
            return _searched(facts, with_excess(facts, _stalled(facts, reason)))
        case actions.Propose():
            return _searched(facts, with_excess(facts, _proposed(facts, action)))
        case actions.Replace() | actions.Forget() | actions.CloseIntent():
            return _again(facts, action)
        case actions.Rest():
            return Report("True", None, Reason.REMOVED, _last_word(facts), Return.SETTLED)
        case actions.SetAside():
            return _set_aside(facts)
        case actions.DropFormer():
            return _of_the_present(facts, Return.SOON)
        case Keep() if facts.observed is not None:
            report = with_excess(facts, blue_green_report.with_the_old(facts, progressing(facts, facts.observed)))
            return replace(report, back=Return.SHORTLY) if facts.view.former is Former.GOING else report
        case _:
            return None


def _searched(facts: Facts[SpecT, StatusT, ObsT], report: Report | None) -> Report | None:
    """The report on what holds up the repetition of a create: what became of the first one is as unknown as before."""
    is_unknown = facts.view.seen is Seen.UNKNOWABLE
    return replace(report, unseen=True) if report is not None and is_unknown else report


def _proposed(facts: Facts[SpecT, StatusT, ObsT], action: actions.Propose) -> Report:
    """Nothing is done, so that an agreed attempt, and a deadline of the cloud, still hold."""
    deadline, told = kept_stopped(facts)
    message = f"{meta.PLAN_ONLY} holds it back: {sentence(proposal(facts, action))}{told}"
    agreed = facts.obj.status.next_attempt_time if facts.view.gate is Gate.LATER else None
    report = Report("False", ConditionType.RECONCILING, Reason.PLAN_ONLY, message, Return.SETTLED)
    return replace(report, deletion_deadline=deadline, next_attempt=agreed)


def _again(
    facts: Facts[SpecT, StatusT, ObsT], action: actions.Replace | actions.Forget | actions.CloseIntent
) -> Report:
    """The report before another create."""
    if isinstance(action, actions.CloseIntent):
        # If no answer to a create can be read, each of them makes a resource, which is then ended.
        retry = RetryKind.QUICK if shown_once(facts.resource) else None
        said = f"{meta.RETRY_CREATE} says that the last attempt had no effect"
        message = said if facts.view.undecided is Undecided.GIVE_UP else facts.note or "the last attempt had no effect"
        return Report("False", ConditionType.RECONCILING, Reason.CREATING, message, Return.SOON, retry)
    recreated = "recreating it" if isinstance(action, actions.Forget) else facts.note
    message = recreated or f"recovery: {facts.view.recovery.name.lower()}"
    return Report("False", ConditionType.RECONCILING, Reason.RECREATING, message, Return.SOON)


def _set_aside(facts: Facts[SpecT, StatusT, ObsT]) -> Report:
    if facts.view.value is Value.NONE:
        return Report("False", ConditionType.RECONCILING, Reason.CREATING, _ANOTHER, Return.SOON)
    message = "another takes its place; what is in the Secret works until then"
    return Report(None, ConditionType.RECONCILING, Reason.ROTATING, message, Return.SOON)


def _of_the_present(facts: Facts[SpecT, StatusT, ObsT], back: Return, aside: Former = Former.NONE) -> Report | None:
    """The report on the present resource, which work on a former one does not change; `aside`: what is left of that.

    What the cloud refused of the present one stays told until it is tried again, at the agreed time.
    """
    if facts.view.gate is Gate.LATER:
        return None
    if facts.view.deleting or facts.observed is None:
        return Report("False", ConditionType.RECONCILING, Reason.DELETING, facts.note or _FORMER_ONES, back)
    otherwise = plan(replace(facts.view, former=aside))
    said = _decided(facts, otherwise, unreachable=False)
    # What is about to be sent for the present one shows whether it is as desired: until then, Ready stays.
    return replace(said or replace(progressing(facts, facts.observed), ready=None), back=back)


def _waiting(facts: Facts[SpecT, StatusT, ObsT], reason: Reason, *, unreachable: bool) -> Report | None:
    match reason:
        case Reason.WAITING_FOR_RETRY:
            return None
        case Reason.PAUSED:
            return _paused(facts, unreachable=unreachable)
        case Reason.CLOUD_UNAVAILABLE:
            unread = blind(facts.error, unreachable=unreachable)
            return None if unread is None else _of_a_deletion(facts, unread)
        case Reason.WAITING_FOR_ACCOUNT if not isinstance(facts.account, AccountReady):
            return _without_account(facts, facts.account)
        case Reason.BACK_OFF:
            return _backing_off(facts)
        case Reason.REPLACING:
            return blue_green_report.waiting(facts)
        case Reason.OUTSIDE_SCHEDULE:
            return Report("False", ConditionType.RECONCILING, reason, facts.note, Return.SETTLED)
        case Reason.WAITING_FOR_BUDGET:  # budgets wake it as soon as there is room
            return held_back(facts, Report("False", ConditionType.RECONCILING, reason, facts.note, Return.SETTLED))
        case Reason.SEARCHING if not facts.obj.status.id:
            return unknown(reason, facts.note)
        case _:
            return Report("False", ConditionType.RECONCILING, reason, _awaited(facts, reason))


def _paused(facts: Facts[SpecT, StatusT, ObsT], *, unreachable: bool) -> Report:
    """The report on an object that is left alone: that on what the cloud shows, as far as it was looked at."""
    if facts.account is NOT_ASKED:
        return paused(facts.obj.status, facts.obj.metadata)
    otherwise = plan(replace(facts.view, paused=False, plan_only=False))
    acts = otherwise in _ABOUT_TO_ACT or not isinstance(otherwise, Wait | Stall | Keep | actions.Rest)
    told = None if acts else _decided(facts, otherwise, unreachable=unreachable)
    report = _left_alone(facts) if told is None else told
    return replace(report, extra=(*report.extra, held_by(facts.obj.metadata, watched=True)))


def _left_alone(facts: Facts[SpecT, StatusT, ObsT]) -> Report:
    """What the cloud shows of what is left alone and would otherwise be changed: it is not as the spec asks."""
    if facts.error is not None:
        return replace(paused(facts.obj.status, facts.obj.metadata), back=Return.TRANSITION, extra=())
    if facts.observed is None or facts.view.seen is Seen.GONE:
        return Report("False", None, Reason.PAUSED, _last_word(facts), Return.SETTLED)
    shown, (deadline, told) = progressing(facts, facts.observed), kept_stopped(facts)
    if told:
        message = facts.resource.detail(facts.observed) + told
        shown = replace(shown, message=message, deletion_deadline=deadline)
    if facts.view.deleting:
        return shown
    message = f"{clause(shown.message)}; {meta.PAUSED} holds back what would be done about it"
    return replace(shown, ready="False", trouble=None, reason=Reason.PAUSED, message=message)


def _awaited(facts: Facts[SpecT, StatusT, ObsT], reason: Reason) -> str:
    if reason is Reason.IN_USE:
        return facts.used
    if reason in _OF_OTHERS:
        return facts.related
    if reason is Reason.DELETING and facts.view.seen is Seen.PENDING and facts.observed is not None:
        return f"it is stopped as soon as it runs; {facts.resource.detail(facts.observed)}"
    if reason is Reason.DELETING and facts.view.former is not Former.NONE:
        return facts.note or _FORMER_ONES
    return facts.note


def _backing_off(facts: Facts[SpecT, StatusT, ObsT]) -> Report:
    seen, difference = facts.view.seen, facts.view.difference
    if difference in recovery.ANEW and not recovery.is_counted(facts.obj, difference):
        due = recovery.next_like_it(facts.obj, facts.now)
        until = f"another is created at {rfc3339(due)}, or as soon as the spec changes"
        message = f"{facts.note}, although it was created from this very spec: {until}"
        return Report("False", ConditionType.RECONCILING, Reason.BACK_OFF, message, next_attempt=due)
    said = facts.note or ("" if facts.observed is None else facts.resource.detail(facts.observed))
    word = "restarted" if facts.view.recovery is Recovery.RESTART else "recreated"
    times, due = recovery.in_a_row(facts.obj, seen, facts.now), recovery.due(facts.obj, seen, facts.now)
    message = (
        f"{said}; {word} {times} time{'' if times == 1 else 's'} without a run of ten minutes since: next at "
        f"{rfc3339(due)}, or as soon as the spec changes"
    )
    return Report("False", ConditionType.RECONCILING, Reason.BACK_OFF, message, next_attempt=due)


def _without_account(facts: Facts[SpecT, StatusT, ObsT], account: AccountWaiting | AccountRefused) -> Report:
    return without_account(account, deleting=facts.view.deleting, recorded=bool(facts.obj.status.id))


def _stalled(facts: Facts[SpecT, StatusT, ObsT], reason: Reason) -> Report:
    message = facts.note
    if reason is Reason.KIND_DISABLED:
        return disabled(facts.key.kind, facts.obj.status, facts.obj.metadata)
    if not isinstance(facts.account, AccountReady):
        return _without_account(facts, facts.account)
    if reason in _OF_OTHERS:
        message = facts.related
    if reason is Reason.CRD_OUTDATED:
        return outdated(facts.outdated)
    if reason is Reason.CREATE_OUTCOME_UNKNOWN:
        return _outcome_unknown(facts, facts.note)
    if reason is Reason.EXPIRED and shown_once(facts.resource):
        asks = facts.resource.life(facts.obj.spec, facts.obj.status).overlap_field
        message = f"it is no longer valid: delete its Secret to get another, and set {asks}"
    if reason is Reason.IMMUTABLE_FIELD_CHANGED:
        message += ": the cloud cannot change this; put the old value back, or set updateStrategy.type: Recreate"
    if reason is Reason.GREEN_FAILED:
        message = blue_green_report.failed(facts)
    if reason is Reason.TERMINATED_EXTERNALLY:
        message = f"{_last_word(facts)}; {_another(facts)}"
    back = Return.TRANSITION if reason is Reason.SECRET_TAKEN else Return.SETTLED  # no event ends SECRET_TAKEN
    report = Report("False", ConditionType.STALLED, reason, message, back)
    return held_back(facts, report) if reason is Reason.BUDGET_EXCEEDED else report


def _last_word(facts: Facts[SpecT, StatusT, ObsT]) -> str:
    """What was last seen of a resource that is gone."""
    shown = "" if facts.observed is None else facts.resource.detail(facts.observed)
    said = shown if brought_in(facts.resource) else "the cloud says it is terminated"
    return facts.note or said


def _another(facts: Facts[SpecT, StatusT, ObsT]) -> str:
    """How people get another one in place of one that is gone."""
    if brought_in(facts.resource):
        return (
            "the operator cannot create this kind: delete this object, and create one that names an existing resource"
        )
    if predicates.runtime_used_up(facts.obj, facts.now):
        return f"its lifetime.maxRuntimeSeconds are used up: a new {meta.RESTARTED_AT} makes another"
    recovers = isinstance(facts.obj.spec, WorkloadSpec)
    return "recovery.onTerminated: Recreate makes another" if recovers else "recreate this object to get another"


def _outcome_unknown(facts: Facts[SpecT, StatusT, ObsT], clue: str) -> Report:
    answer = f"gpurelay.dev/retry-create={facts.intent.token if facts.intent is not None else 'yes'}"
    message = (
        f"a create was sent and its answer is lost: {clue}. If it exists, annotate gpurelay.dev/adopt-id=<its id>; "
        f"if it does not, {annotate(facts.key, answer)}"
    )
    return unknown(Reason.CREATE_OUTCOME_UNKNOWN, message, Return.SETTLED, stalled=True)
