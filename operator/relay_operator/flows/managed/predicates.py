"""Computes from an object what a `View` needs. Pure: no I/O, time is passed in."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from relay_operator.api import meta
from relay_operator.api.meta import CreateIntent, MalformedIntent, ObjectKey, Resource
from relay_operator.api.parts import DeletionPolicy, OnInterrupted, PowerState, Recovery, UpdateType
from relay_operator.api.workload import BILLED, ManagedSpec, ManagedStatus, SpecT, StatusT
from relay_operator.engine.account import AccountReady, moved
from relay_operator.engine.backoff import is_ahead
from relay_operator.engine.intent import changed_fields, is_open
from relay_operator.flows.managed import former, schedule
from relay_operator.flows.managed.abilities import brought_in, drain, is_powered, nameless, refers, tries_models
from relay_operator.flows.managed.actions import START, STOP
from relay_operator.flows.managed.resource import Change, ExternalResource, ObsT, Progress
from relay_operator.flows.managed.view import Demand, Difference, Gate, Seen, Undecided
from relay_operator.flows.managed.workload import asked, told

Intent = CreateIntent | MalformedIntent | None
NO_IDS: Mapping[ObjectKey, str] = {}

_DEMAND_BY_POLICY = {
    DeletionPolicy.DELETE: Demand.DELETE,
    DeletionPolicy.STOP: Demand.DELETE_STOPPING,
    DeletionPolicy.ORPHAN: Demand.DELETE_ORPHANING,
}
_RUNNING = frozenset({Progress.READY, Progress.DEGRADED, Progress.INTERRUPTED})
ON_THE_WAY = frozenset({"deploying", "provisioning", "stopping"})
"""Words of the cloud for what does not run yet, or stops already; a kind may say that it costs something."""
_CHANGED = "a Secret or ConfigMap of the spec has changed"
_LATER = "it is replaced once it is to run again"
_RESTARTABLE = frozenset({Progress.READY, Progress.DEGRADED, Progress.FAILED})


def demand(obj: Resource[SpecT, StatusT]) -> Demand:
    """What people want; `abandon` counts only while deleting."""
    if obj.metadata.deletion_timestamp is None:
        return Demand.EXIST
    if obj.metadata.annotations.get(meta.ABANDON) == "true":
        return Demand.DELETE_ABANDONING
    return _DEMAND_BY_POLICY[obj.spec.deletion_policy]


def intent_open(obj: Resource[SpecT, StatusT], intent: Intent) -> bool:
    """Whether a create may have been sent whose result status does not record."""
    return is_open(intent, obj.status.create_token, obj.status.id, obj.status.spec_hash)


def created_at(obj: Resource[SpecT, StatusT], now: datetime) -> datetime | None:
    """When the create of the recorded resource was sent; None if that is unknown, or the clock was ahead then."""
    intent = CreateIntent.parse(obj.metadata.annotations.get(meta.CREATE_INTENT))
    return intent.started_at if isinstance(intent, CreateIntent) and intent.started_at <= now else None


def gate(obj: Resource[SpecT, StatusT], now: datetime, longest: timedelta) -> Gate:
    """The gate of the agreed next attempt: closed until its time, unless the spec changed or a refresh is requested."""
    unchanged = obj.status.observed_generation == obj.metadata.generation and not refresh_asked(obj)
    return Gate.LATER if unchanged and is_ahead(obj.status.next_attempt_time, now, longest) else Gate.OPEN


def refresh_asked(obj: Resource[SpecT, StatusT]) -> bool:
    """Whether `reconcile-at` has a value that status does not echo yet."""
    return obj.metadata.echo(meta.RECONCILE_AT) != (obj.status.reconcile_at or None)


def undecided(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    intent: Intent,
    account: AccountReady,
) -> Undecided:
    """What may be done about an unknown outcome: a person's answer precedes the account's policy.

    For a kind without names, after an answer about something else, and to a cloud with another URL, nothing is sent
    again: that would create another.
    """
    token, answered = (intent.token, intent.answered) if isinstance(intent, CreateIntent) else ("", "")
    made_for = intent.identity if isinstance(intent, CreateIntent) else None
    answer = obj.metadata.annotations.get(meta.RETRY_CREATE, "")
    if answer and (answer == token or isinstance(intent, MalformedIntent)):
        return Undecided.GIVE_UP
    elsewhere = moved(made_for, account.endpoints.of(resource.definition.kind))
    resend = account.resend_unknown and token and not answered and not nameless(resource) and not elsewhere
    return Undecided.RESEND if resend else Undecided.HOLD


def shown(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT], observed: ObsT) -> bool:
    """Whether what was looked at by the recorded id is that resource, by its name, if the kind has names in the cloud.

    Then this cloud is the one in which it was created.
    """
    _, name = resource.identity(observed)
    return nameless(resource) or (bool(name) and name == obj.status.cloud_name)


def since_in(obj: Resource[SpecT, StatusT], state: str, now: datetime) -> datetime:
    """When the cloud was first seen to report this state; that may be now, and is not later."""
    return min(obj.status.state_since or now, now) if obj.status.state == state else now


def running_wanted(obj: Resource[SpecT, StatusT], now: datetime) -> bool:
    """Whether it should run: by `powerState`, in the windows of its schedule, until its runtime is used up."""
    return not stopped_for_good(obj, now) and not schedule.resting(obj.spec, now)


def stopped_for_good(obj: Resource[SpecT, StatusT], now: datetime) -> bool:
    """Whether it stays stopped until people act: by `powerState`, or by `lifetime.maxRuntimeSeconds`."""
    return asked(obj.spec).power_state is PowerState.STOPPED or runtime_used_up(obj, now)


def runtime_used_up(obj: Resource[SpecT, StatusT], now: datetime) -> bool:
    """Whether the maximum runtime has passed since the last start on request; a new `restarted-at` resets it."""
    lifetime = asked(obj.spec).lifetime
    limit = None if lifetime is None else lifetime.max_runtime_seconds
    since = None if limit is None else told(obj.status).running_since
    if limit is None or since is None or restart_asked(obj):
        return False
    return now - since >= timedelta(seconds=limit)


def restart_asked(obj: Resource[SpecT, StatusT]) -> bool:
    """Whether `restarted-at` has a value that status does not echo yet; without one, nothing is requested."""
    value = obj.metadata.echo(meta.RESTARTED_AT)
    return value is not None and value != told(obj.status).restarted_at


def env_changed(recorded: str | None, env_digest: str) -> bool:
    """Whether Secrets and ConfigMaps hold something else than was recorded, as far as both are known."""
    return bool(recorded and env_digest) and recorded != env_digest


def model_id(models: Sequence[str], full: int) -> str:
    """The GPU model of the next attempt: each refusal for lack of room moves on, cyclically; empty without models."""
    return models[full % len(models)] if models else ""


def difference(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT | None,
    intent: CreateIntent | None,
    env_digest: str,
    now: datetime,
    ids: Mapping[ObjectKey, str] = NO_IDS,
) -> tuple[Difference, Change | None, str]:
    """How the spec differs from the resource, the change to make first, and what cannot be changed."""
    if observed is None or obj.metadata.deletion_timestamp is not None:
        return Difference.NONE, None, ""
    recorded = obj.status.spec_hash or (intent.spec_hash if intent is not None else "")
    differs = resource.differences(obj, observed)
    named = {text.partition(":")[0] for text in differs}
    silent = tuple(name for name in changed_fields(recorded, resource.immutable(obj)) if name not in named)
    strategy = obj.spec.update_strategy
    recreate = strategy is not None and strategy.type is UpdateType.RECREATE
    outdated = env_changed(obj.status.env_digest, env_digest)
    if former.supersedes(obj.status) and (recreate if differs or silent else outdated):
        full = former.is_full(obj.status)
        return (Difference.FORBIDDEN, None, former.FULL) if full else (Difference.SUPERSEDED, None, "; ".join(differs))
    if drain(resource, obj) is not None and (differs or silent or outdated):
        return _blue_green(resource, obj, observed, now, (*differs, *silent) or (_CHANGED,))
    if (differs or silent or outdated) and recreate and runtime_used_up(obj, now):
        return _once_it_runs(resource, obj, observed, now, "; ".join((*differs, *silent) or (_CHANGED,)))
    if differs or silent or (outdated and recreate):
        return Difference.REPLACEABLE if recreate else Difference.FORBIDDEN, None, "; ".join(differs + silent)
    changes = changes_of(resource, obj, observed, now, ids)
    return (Difference.CHANGE, changes[0], "") if changes else (Difference.NONE, None, "")


def _blue_green(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT,
    now: datetime,
    differs: tuple[str, ...],
) -> tuple[Difference, Change | None, str]:
    """The difference of a resource that another one replaces, created beside it.

    What can be changed in place is changed first, and a resource that has to be stopped is replaced once it is to run
    again. It is neither started nor restarted for that, since another takes its place.
    """
    why = "; ".join(differs)
    if not running_wanted(obj, now):
        return _once_it_runs(resource, obj, observed, now, why)
    changes = resource.changes(obj, observed, running=True)
    return (Difference.CHANGE, changes[0], "") if changes else (Difference.BLUE_GREEN, None, why)


def _once_it_runs(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT,
    now: datetime,
    why: str,
) -> tuple[Difference, Change | None, str]:
    """The difference of a resource that has to be stopped, and is replaced only after that."""
    changes = changes_of(resource, obj, observed, now)
    return (Difference.CHANGE, changes[0], "") if changes else (Difference.NONE, None, f"{_LATER}: {why}")


def as_made(
    resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT], observed: ObsT, env_digest: str
) -> bool:
    """Whether the resource was made from this very spec and these Secrets, and the cloud shows it otherwise."""
    changed = changed_fields(obj.status.spec_hash or "", resource.immutable(obj))
    same = not (changed or env_changed(obj.status.env_digest, env_digest))
    return same and bool(resource.differences(obj, observed))


def changes_of(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    obj: Resource[SpecT, StatusT],
    observed: ObsT,
    now: datetime,
    ids: Mapping[ObjectKey, str] = NO_IDS,
) -> tuple[Change, ...]:
    """Power first, then the kind's own changes, then a restart that people requested: of what failed, it is a start."""
    running, progress, (cloud_id, _) = (
        running_wanted(obj, now),
        resource.progress(observed),
        resource.identity(observed),
    )
    lingers = not running and may_run(resource, obj, observed)
    changes = resource.changes(obj, observed, running=running)
    if refers(resource):
        changes = (*changes, *resource.giving(obj, observed, ids))
    if not is_powered(resource):
        return changes
    if running and progress is Progress.STOPPED:
        return (resource.start(cloud_id), *changes)
    if not running and (progress in _RUNNING or lingers):
        return (resource.stop(cloud_id), *changes)
    if not changes and running and restart_asked(obj) and progress in _RESTARTABLE:
        return (resource.start(cloud_id) if progress is Progress.FAILED else resource.restart(cloud_id),)
    return changes


def may_run(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT], observed: ObsT) -> bool:
    """Whether one that is PENDING may cost something: its kind says so, or it ran and its state's name is unknown."""
    if resource.progress(observed) is not Progress.PENDING:
        return False
    state, ran = resource.status(obj, observed).state, told(obj.status).running_since is not None
    return state in resource.costs_early or (ran and state not in ON_THE_WAY)


def unseen_stop(
    resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT], now: datetime
) -> Change | None:
    """The stop that people want of what costs something as far as status records; None if it is to run, or to end."""
    wanted, status = demand(obj), obj.status
    stops = wanted is Demand.DELETE_STOPPING or (wanted is Demand.EXIST and not running_wanted(obj, now))
    costs = status.state in BILLED | resource.costs_early
    return resource.stop(status.id) if status.id and costs and stops and is_powered(resource) else None


def change_named(
    resource: ExternalResource[SpecT, StatusT, ObsT], cloud_id: str, first: Change | None, name: str
) -> Change:
    """The change that the plan calls by this name."""
    if first is not None and first.name == name:
        return first
    if is_powered(resource) and name in {STOP, START}:
        return resource.stop(cloud_id) if name == STOP else resource.start(cloud_id)
    raise AssertionError(f"the plan makes a change that {resource.definition.kind} does not know: {name}")


def end_asked(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT]) -> bool:
    """Whether people want the resource to end, and keep the object."""
    return demand(obj) is Demand.EXIST and brought_in(resource) and resource.end_asked(obj)


def models_of(resource: ExternalResource[SpecT, StatusT, ObsT], obj: Resource[SpecT, StatusT]) -> tuple[str, ...]:
    """GPU models to try, in order; empty if the cloud chooses, or the kind has none."""
    return resource.models(obj) if tries_models(resource) else ()


def expired(obj: Resource[SpecT, StatusT], seen: Seen, now: datetime) -> bool:
    """Whether it has been stopped on request for longer than `lifetime.ttlSecondsAfterStopped`."""
    lifetime = asked(obj.spec).lifetime
    if seen is not Seen.STOPPED or lifetime is None or lifetime.ttl_seconds_after_stopped is None:
        return False
    since = told(obj.status).stopped_since
    lasted = since is not None and now - since >= timedelta(seconds=lifetime.ttl_seconds_after_stopped)
    return lasted and stopped_for_good(obj, now)


def deadlines(spec: ManagedSpec, status: ManagedStatus) -> tuple[datetime, ...]:
    """Times at which a pass is due although nothing has changed, including past ones."""
    waits: list[tuple[datetime | None, int | None]] = []
    if (lifetime := asked(spec).lifetime) is not None:
        waits.append((told(status).running_since, lifetime.max_runtime_seconds))
        waits.append((told(status).stopped_since, lifetime.ttl_seconds_after_stopped))
        waits.append((told(status).next_schedule_time, 0))
    if status.state == "interrupted":
        recovery = asked(spec).recovery or Recovery()
        recreated = recovery.on_interrupted is OnInterrupted.RECREATE
        waits.append((status.state_since, recovery.after_seconds if recreated else None))
    moments = (_later(since, seconds) for since, seconds in waits if since is not None and seconds is not None)
    return tuple(moment for moment in moments if moment is not None)


def _later(since: datetime, seconds: int) -> datetime | None:
    """The moment so many seconds later; None after the last year there is, as for a time that was edited by hand."""
    try:
        return since + timedelta(seconds=seconds)
    except OverflowError:
        return None
