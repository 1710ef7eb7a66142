"""What is done next about a resource that differs from its spec or has to recover, and what it may cost. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.flows.managed import predicates, recovery
from relay_operator.flows.managed.blue_green import has_failed
from relay_operator.flows.managed.former import former
from relay_operator.flows.managed.funding import Ahead
from relay_operator.flows.managed.resource import Change, ExternalResource, ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import THERE, Demand, Difference, Gate, Recovery, Seen


@dataclass(frozen=True, slots=True)
class Step:
    """What differs from the spec, and what is done about it."""

    difference: Difference
    change: Change | None
    differs: str
    recovery: Recovery
    held_back: bool
    beside: bool
    """Whether a successor is created beside the resource."""
    ends_first: bool
    """Whether the resource is ended now so that another can take its place."""


def step_of(
    resource: ExternalResource[SpecT, StatusT, ObsT],
    subject: Subject[SpecT, StatusT],
    sight: Sight[ObsT],
    intent: CreateIntent | None,
    env_digest: str,
    ids: Mapping[ObjectKey, str],
) -> Step:
    """The step for what the look showed; `ids` has the cloud ids of what the spec refers to."""
    obj, now = subject.obj, subject.turn.now
    difference, change, differs = predicates.difference(resource, obj, sight.observed, intent, env_digest, now, ids)
    if difference is Difference.BLUE_GREEN and (failed := has_failed(obj, env_digest)):
        difference, differs = Difference.GREEN_FAILED, failed.message
    requested = recovery.recovery(obj, sight.seen, now)
    replaced = sight.observed if difference in recovery.ANEW else None
    as_made = replaced is not None and predicates.as_made(resource, obj, replaced, env_digest)
    held_back = recovery.held_back(obj, sight.seen, requested, difference, now, as_made=as_made)
    beside = difference is Difference.BLUE_GREEN and not former(obj.status)
    replaces = difference is Difference.REPLACEABLE or requested is Recovery.RECREATE
    begins = replaces and not held_back and not obj.status.replacing
    ends_first = begins and sight.seen in THERE and _lives(obj)
    return Step(difference, change, differs, requested, held_back, beside, ends_first)


def ahead_of(step: Step, obj: Resource[SpecT, StatusT], seen: Seen, gate: Gate, *, creates: bool, sent: bool) -> Ahead:
    """What budgets are asked about."""
    lives = _lives(obj)
    starts = not sent and _grows(step, gate)
    anew = step.ends_first or (lives and obj.metadata.plan_only and _anew(obj, seen, step))
    pays = lives and (creates or starts) and not anew
    again = lives and (seen is Seen.ABSENT or (seen is Seen.NOTHING and gate is Gate.ACCOUNT_UNFIT))
    return Ahead(pays, again, anew, step.change.name if step.change is not None else "", step.beside)


def _lives(obj: Resource[SpecT, StatusT]) -> bool:
    """Whether something may be made for it: it is neither being deleted nor paused."""
    return predicates.demand(obj) is Demand.EXIST and not obj.metadata.paused


def _grows(step: Step, gate: Gate) -> bool:
    """Whether a start, or a change that costs more, is sent now if nothing but the agreed time is considered.

    A time that was agreed for a recovery does not hold back what people request meanwhile.
    """
    pays = step.change is not None and step.change.pays
    return pays and step.held_back if gate is Gate.LATER else pays or step.recovery is Recovery.RESTART


def _anew(obj: Resource[SpecT, StatusT], seen: Seen, step: Step) -> bool:
    """Whether another resource takes the place of the present or the last one."""
    begun = seen is Seen.GONE and bool(obj.status.replacing)
    replaces = step.difference in recovery.ANEW or step.recovery is Recovery.RECREATE
    return begun or (not step.held_back and replaces)
