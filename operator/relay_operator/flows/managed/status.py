"""Builds the status to write. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

from relay_operator.api import meta
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, rfc3339
from relay_operator.api.plan import Plan
from relay_operator.api.references import HeldReference
from relay_operator.api.workload import BILLED, BlueGreenStatus, SpecT, StatusT, WorkloadStatus
from relay_operator.engine import conditions
from relay_operator.engine.account import pinned
from relay_operator.engine.actions import Keep
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.conditions import Wanted
from relay_operator.engine.intent import changed_fields, named
from relay_operator.engine.report import Report
from relay_operator.engine.status import conditions_of, of_every_pass, storable, whole_seconds
from relay_operator.flows.managed import actions, blue_green, predicates, recovery, schedule
from relay_operator.flows.managed.abilities import drain, is_part, shown_once
from relay_operator.flows.managed.actions import Action
from relay_operator.flows.managed.clocks import clocks, recoveries
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import former, supersedes, with_present, without
from relay_operator.flows.managed.proposal import proposal
from relay_operator.flows.managed.resource import ObsT
from relay_operator.flows.managed.result import Accepted, Rejected, Result, Sent, Switched
from relay_operator.flows.managed.view import Difference, Former, Seen
from relay_operator.flows.managed.workload import told

Fields = dict[str, object]

_OF_THE_RESOURCE = (
    "id",
    "account",
    "cloud_name",
    "identity",
    "state",
    "status_reason",
    "endpoint_url",
    "spec_hash",
    "env_digest",
    "references",
    "price_per_hour_cents",
    "deletion_deadline",
    "replacing",
)
"""Fields about one resource, which are cleared with it."""
_OF_THE_FORMER = frozenset({"account", "identity"})
"""Those of them that hold for a former resource as well."""


_BEGINNINGS = ("state_since", "running_since", "stopped_since")
_APPLIED = frozenset({Difference.REPLACEABLE, Difference.BLUE_GREEN})
"""Differences that apply what changed in a Secret."""
_LONGEST_BLIND = 60.0
"""Seconds to which waits grow while the cloud cannot be read, although it advises less: each look is written."""


def new_status(
    facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], report: Report, retry_policy: RetryPolicy
) -> StatusT:
    """The status after this pass."""
    obj, observed = facts.obj, result.resource if isinstance(result, Accepted) else facts.observed
    gone: Fields = {"state": "terminated"} if facts.view.seen is Seen.GONE else {}
    # What is there is not terminated, also where the cloud has no word for its state.
    shown = gone if observed is None else {"state": None, **facts.resource.mirror(obj, observed)}
    state = shown.get("state", obj.status.state)
    assert state is None or isinstance(state, str), "states are words"
    wanted, looked = _conditions(facts, report), facts.error is None
    changed = of_every_pass(obj.status, obj.metadata, wanted, facts.now, looked=looked)
    changed |= _protocol(facts, action, result)
    changed |= clocks(facts, action, result, observed, state)
    changed |= _attempts(facts, result, report, retry_policy)
    changed |= _money(facts, report)
    changed["plan"] = proposal(facts, action, report.message) if facts.obj.metadata.plan_only else None
    changed["recoveries"] = recoveries(facts, action, result, report)
    changed["next_schedule_time"] = None if facts.view.deleting else schedule.next_change(obj.spec, facts.now)
    if (state or None) != obj.status.state and "state" not in changed:
        changed["state_since"] = facts.now if state else None
    if blue_green.serving(obj.status) is not None and not isinstance(result, Switched):
        changed["endpoint_url"] = told(obj.status).endpoint_url  # the old one's, until it is relieved
    if obj.status.adopted_before != obj.metadata.echo(meta.ADOPT_ID):
        changed.setdefault("adopted_before", None)  # asked again, it is adopted again
    if "former" not in changed:
        changed |= _former_in_time(facts)
    if "identity" not in changed and observed is not None:
        changed |= _seen_in(facts, observed)
    doom = report.deletion_deadline or _doomed(facts, changed) or _retained(facts)
    changed.setdefault("deletion_deadline", doom)
    fields = type(obj.status).model_fields  # kinds that do not run have fewer fields
    changed = shown | {name: value for name, value in changed.items() if name in fields}
    after = obj.status.model_copy(update=changed)
    return storable(_with_what_is_paid(_begun(after, facts.now), BILLED | facts.resource.costs_early))


def _begun(status: StatusT, now: datetime) -> StatusT:
    """The status without beginnings that are still to come: they were written while the clock was ahead.

    If somebody removed that of its state, that is now: what is due after it would never come.
    """
    late = [name for name in _BEGINNINGS if (at := getattr(status, name, None)) is not None and at > now]
    if status.state and status.state_since is None:
        late.append("state_since")
    return status.model_copy(update=dict.fromkeys(late, now)) if late else status


def _seen_in(facts: Facts[SpecT, StatusT, ObsT], observed: ObsT) -> Fields:
    """Where the resource was seen, if something else is recorded: that it was shown proves the cloud is the same."""
    if facts.here is None or facts.outdated:
        return {}
    return {"identity": facts.here} if predicates.shown(facts.resource, facts.obj, observed) else {}


def _former_in_time(facts: Facts[SpecT, StatusT, ObsT]) -> Fields:
    """The former resources, if one was to live on for longer than the spec lets it: the clock was ahead then."""
    resource, obj = facts.resource, facts.obj
    lives = resource.life(obj.spec, obj.status).overlap if shown_once(resource) else drain(resource, obj)
    if lives is None:
        return {}
    until = facts.now + lives
    late = [row for row in former(obj.status) if row.until is not None and row.until > until]
    kept = (row.model_copy(update={"until": until}) if row in late else row for row in former(obj.status))
    return {"former": list(kept)} if late else {}


def still_waiting(facts: Facts[SpecT, StatusT, ObsT], action: Action) -> StatusT:
    """The status until the agreed attempt: as it was, with the present plan, and without a former resource dropped."""
    plan = until_agreed(facts, action) if facts.obj.metadata.plan_only else None
    return facts.obj.status.model_copy(update=_of_action(facts, action) | {"plan": plan})


def until_agreed(facts: Facts[SpecT, StatusT, ObsT], action: Action) -> Plan:
    """The plan until the agreed attempt, with why there has to be another one."""
    ready = conditions.find(facts.obj.status.conditions, ConditionType.READY)
    last = f": {ready.message}" if ready is not None else ""
    until = rfc3339(facts.obj.status.next_attempt_time or facts.now)
    return proposal(facts, action, f"nothing is tried before {until}{last}")


def _protocol(facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT]) -> Fields:
    """Id and token: which intent is closed, and what it created."""
    match result:
        case Accepted(resource=observed, intent=intent, given=ids):
            given = {} if is_part(facts.resource) or ids is None else {"references": _given(ids)}
            return _owned(facts, observed, intent) | given
        case Sent(change) if change is not None and change.gives is not None:
            return {"references": _with(facts.obj.status.references or (), change.gives)}
        case Rejected(intent=CreateIntent() as intent):
            closed = {"create_token": intent.token, "attempt": intent.attempt}
            return closed | blue_green.reinstated(facts.obj.status, intent)
        case Switched():
            return blue_green.switched(facts.obj.status, facts.now + (drain(facts.resource, facts.obj) or timedelta()))
        case _:
            return _of_action(facts, action)


def _of_action(facts: Facts[SpecT, StatusT, ObsT], action: Action) -> Fields:
    """The fields of actions that are only recorded."""
    if isinstance(action, actions.CloseIntent):
        token, attempt = (
            (facts.intent.token, facts.intent.attempt) if facts.intent is not None else (MalformedIntent.TOKEN, 1)
        )
        closed: Fields = {"create_token": token, "attempt": max(attempt, facts.obj.status.attempt or 0)}
        if facts.obj.status.spec_hash and not facts.obj.status.id:  # of what lost its id, and is not there
            closed |= _cleared(facts, beside=bool(former(facts.obj.status)))
        return closed | blue_green.reinstated(facts.obj.status, facts.intent)
    if isinstance(action, actions.Replace):
        return {"replacing": True} | _failed(facts)
    if isinstance(action, actions.Reinstate):
        failed = {} if facts.view.replacing else _failed(facts)
        return blue_green.reinstated(facts.obj.status, facts.intent) | failed | _ended(facts)
    if isinstance(action, actions.SetAside) and facts.view.difference is Difference.BLUE_GREEN:
        return _beside(facts) | _adopted_before(facts) | _ended(facts)
    if isinstance(action, actions.SetAside):
        return _cleared(facts, beside=True) | _ended(facts) | {"former": with_present(facts.obj.status, _until(facts))}
    if isinstance(action, actions.DropFormer) and facts.former is not None:
        return {"former": without(facts.obj.status, facts.former)}
    if isinstance(action, Keep | actions.Update):
        ending = facts.view.replacing and facts.view.seen is Seen.PENDING  # or may be: an end can take minutes
        return {"replacing": ending or None, "failed_green": blue_green.remembered(facts.obj)}
    if isinstance(action, actions.Forget):
        return _cleared(facts, beside=bool(former(facts.obj.status))) | _ended(facts)
    return {}


def _cleared(facts: Facts[SpecT, StatusT, ObsT], *, beside: bool) -> Fields:
    """The fields about the resource without it, where a former one may be beside it."""
    fields = (name for name in _OF_THE_RESOURCE if not (beside and name in _OF_THE_FORMER))
    return dict.fromkeys(fields) | _adopted_before(facts)


def _adopted_before(facts: Facts[SpecT, StatusT, ObsT]) -> Fields:
    """The record that the adopted resource has left its place, so that it is not adopted again."""
    metadata, status = facts.obj.metadata, facts.obj.status
    was_adopted = status.id and metadata.annotations.get(meta.ADOPT_ID) == status.id
    return {"adopted_before": metadata.echo(meta.ADOPT_ID)} if was_adopted else {}


def _beside(facts: Facts[SpecT, StatusT, ObsT]) -> Fields:
    status = facts.obj.status
    assert facts.observed is not None, "only what is there is replaced"
    assert isinstance(status, BlueGreenStatus), "a kind that replaces says what it had"
    return blue_green.set_aside(
        status, *blue_green.costs(facts.resource, facts.obj, facts.observed, facts.funded.price)
    )


def _failed(facts: Facts[SpecT, StatusT, ObsT]) -> Fields:
    """The record that a new resource failed to take the old one's place, although it fits the spec."""
    obj, view = facts.obj, facts.view
    if changed_fields(obj.status.spec_hash or "", facts.resource.immutable(obj)):
        return {}
    if view.former is Former.RETURNING:
        shown = _shown_otherwise(facts)
        return {"failed_green": blue_green.failed(obj, shown)} if shown else {}
    if view.former not in {Former.SERVING, Former.RELIEVED} or view.seen not in {Seen.FAILED, Seen.GONE}:
        return {}
    said = facts.note if facts.observed is None else facts.resource.detail(facts.observed)
    return {"failed_green": blue_green.failed(obj, said)}


def _shown_otherwise(facts: Facts[SpecT, StatusT, ObsT]) -> str:
    """How the cloud shows a new resource that was made for this very spec; empty if it is as asked for, or was not.

    The next one would differ in the same way: each of them costs, and none would take the old one's place.
    """
    obj, observed = facts.obj, facts.observed
    if observed is None or facts.view.difference is not Difference.BLUE_GREEN:
        return ""
    differs = facts.resource.differences(obj, observed)
    fixed = {text.partition(":")[0] for text in differs} & facts.resource.immutable(obj).keys()
    # Fields without a fingerprint may have changed since the create, if the spec has.
    seen_before = obj.status.observed_generation == obj.metadata.generation
    return "; ".join(differs) if fixed or seen_before else ""


def _money(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Fields:
    """The price, if the cloud does not report it; a reservation is over once everything is as desired."""
    funded = facts.funded
    changed: Fields = {"price_per_hour_cents": funded.price} if funded.price is not None else {}
    reserved = facts.intent.reserved if facts.intent is not None else None
    return changed | ({"reservation_token": reserved.token} if reserved is not None and report.ready == "True" else {})


def _with_what_is_paid(status: StatusT, billed: frozenset[str]) -> StatusT:
    """The status with what is paid now: the price counts only in some states, the old one's while that exists."""
    if not isinstance(status, WorkloadStatus):
        return status
    own = status.price_per_hour_cents if status.state in billed and status.id else None
    prices = [own, *(row.price_per_hour_cents for row in blue_green.blues(status))]
    known = [price for price in prices if price is not None]
    paying = sum(known) if known else None
    same = paying == status.paying_per_hour_cents
    return status if same else status.model_copy(update={"paying_per_hour_cents": paying})


def _doomed(facts: Facts[SpecT, StatusT, ObsT], changed: Fields) -> datetime | None:
    """The deadline that stands whatever is reported, until the state ends, a start is sent, or there are funds."""
    over = "state_since" in changed or facts.funded_since
    return None if over else told(facts.obj.status).deletion_deadline


def _retained(facts: Facts[SpecT, StatusT, ObsT]) -> datetime | None:
    """Until when the cloud keeps what is interrupted, whatever is reported of it."""
    if facts.view.seen is not Seen.INTERRUPTED or facts.resource.retention is None:
        return None
    return predicates.since_in(facts.obj, "interrupted", facts.now) + facts.resource.retention


def _until(facts: Facts[SpecT, StatusT, ObsT]) -> datetime | None:
    """Until when a value that is shown once works beside its successor."""
    resource, obj = facts.resource, facts.obj
    return resource.life(obj.spec, obj.status).until(facts.now) if shown_once(resource) else None


def _given(ids: Mapping[ObjectKey, str]) -> list[HeldReference] | None:
    rows = [HeldReference(kind=key.kind, name=key.name, id=cloud_id) for key, cloud_id in ids.items()]
    return rows or None


def _with(rows: Iterable[HeldReference], given: HeldReference) -> list[HeldReference]:
    return [*(row for row in rows if (row.kind, row.name) != (given.kind, given.name)), given]


def _ended(facts: Facts[SpecT, StatusT, ObsT]) -> Fields:
    """The token of an intent that was rebuilt from an edited status, and whose resource is gone: it is closed."""
    intent, status = facts.intent, facts.obj.status
    if status.create_token or intent is None or intent.name != named(status.id or "", status.cloud_name or ""):
        return {}
    return {"create_token": intent.token}


def _owned(facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, intent: CreateIntent) -> Fields:
    cloud_id, name = facts.resource.identity(observed)
    return {
        "id": cloud_id,
        "cloud_name": name or intent.name,
        "identity": intent.identity,
        "create_token": intent.token,
        "attempt": intent.attempt,
        "spec_hash": intent.spec_hash,
        "env_digest": facts.env_digest if intent.env_digest is None else intent.env_digest,
        "account": pinned(facts.obj.spec.account_ref, None, intent),
    }


def _attempts(
    facts: Facts[SpecT, StatusT, ObsT], result: Result[ObsT], report: Report, retry_policy: RetryPolicy
) -> Fields:
    """Consecutive failures, and the earliest next attempt."""
    status = facts.obj.status
    if report.retry is None:
        settled = isinstance(result, Accepted) or (report.ready == "True" and recovery.lasted(facts.obj, facts.now))
        return {"failures": None if settled else status.failures, "next_attempt_time": report.next_attempt}
    if facts.error is not None:  # a look is not an attempt: it neither changes the model nor delays the next create
        advised = retry_policy.wait(report.retry, report.retry_after, facts.unanswered)
        grown = min(retry_policy.quick.after(facts.unanswered, retry_policy.random), _LONGEST_BLIND)
        return {"failures": status.failures, "next_attempt_time": whole_seconds(facts.now, max(advised, grown))}
    failures = (status.failures or 0) + 1
    wait = retry_policy.wait(report.retry, report.retry_after, failures)
    create_refused = isinstance(result, Rejected) and result.intent is not None
    untried = create_refused and (facts.full + 1) % max(len(facts.models), 1) != 0
    if report.reason == Reason.WAITING_FOR_CAPACITY and untried:
        wait = 0.0
    return {"failures": failures, "next_attempt_time": whole_seconds(facts.now, wait) if wait else None}


def _conditions(facts: Facts[SpecT, StatusT, ObsT], report: Report) -> Iterator[Wanted]:
    yield from conditions_of(facts.obj.status.conditions, report, facts.now)
    outdated = predicates.env_changed(facts.obj.status.env_digest, facts.env_digest)
    if outdated and facts.view.difference not in _APPLIED and not supersedes(facts.obj.status):
        message = (
            "a Secret or ConfigMap of the spec has changed since the create; updateStrategy.type: Recreate applies it"
        )
        yield Wanted(ConditionType.ENV_OUTDATED, "True", Reason.ENV_CHANGED, message)
