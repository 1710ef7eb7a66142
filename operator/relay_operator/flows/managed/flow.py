"""The flow of objects that a kind maps to one resource of the cloud each."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Generic

from relay_client import BadRequest
from relay_kube.errors import NotLeading, Refused
from relay_kube.kube import ResourceType
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.meta import CreateIntent, ObjectKey, Resource
from relay_operator.api.parts import DeletionPolicy
from relay_operator.api.plan import Plan
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine import identity
from relay_operator.engine.account import Accounts
from relay_operator.engine.actions import Nothing, Release, Wait
from relay_operator.engine.backoff import RetryPolicy
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation, place_of
from relay_operator.engine.kind import resource_type
from relay_operator.engine.leftover import Fate, Left
from relay_operator.engine.object_writer import ObjectWriter
from relay_operator.engine.persist import PaidFor
from relay_operator.engine.queue import Priority
from relay_operator.engine.report import Report, Return, Told
from relay_operator.flows.managed import predicates, unended
from relay_operator.flows.managed.abilities import Connects, brought_in, shown_once
from relay_operator.flows.managed.act import Actor
from relay_operator.flows.managed.actions import Action, DropFormer, EndFormer, SwitchOver
from relay_operator.flows.managed.begun import before_begun, with_begun
from relay_operator.flows.managed.blue_green import serving
from relay_operator.flows.managed.clocks import begins
from relay_operator.flows.managed.connection import ConnectionWriter
from relay_operator.flows.managed.ending import parse
from relay_operator.flows.managed.facts import Facts
from relay_operator.flows.managed.former import former
from relay_operator.flows.managed.gather import Gatherer
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.open_intent import with_open_intent
from relay_operator.flows.managed.part_of import part_of, placed
from relay_operator.flows.managed.plan import plan
from relay_operator.flows.managed.proposal import proposal
from relay_operator.flows.managed.report import report_of
from relay_operator.flows.managed.resource import ExternalResource, ObsT
from relay_operator.flows.managed.result import Accepted, OutcomeUnknown, Rejected, Result, Switched
from relay_operator.flows.managed.shown_once import Shown
from relay_operator.flows.managed.status import new_status, still_waiting, until_agreed
from relay_operator.flows.managed.view import Former, Seen
from relay_operator.flows.managed.workload import asked

_NEW = timedelta(hours=1)
"""For so long after its create, nobody misses a resource that status could never record."""


@dataclass(frozen=True, slots=True)
class ManagedFlow(Generic[SpecT, StatusT, ObsT]):
    """The `Flow` of a kind that implements `ExternalResource`."""

    resource: ExternalResource[SpecT, StatusT, ObsT]
    accounts: Accounts
    gatherer: Gatherer[SpecT, StatusT, ObsT]
    actor: Actor[SpecT, StatusT, ObsT]
    connections: ConnectionWriter
    retry_policy: RetryPolicy
    installation: Installation
    unreachable_after: int
    """Consecutive looks without an answer after which status says so."""

    @property
    def type(self) -> ResourceType:
        return resource_type(self.resource.definition)

    def parse(self, body: bytes) -> Resource[SpecT, StatusT]:
        return parse(self.resource.model, body)

    def own(self, obj: Resource[SpecT, StatusT]) -> Resource[SpecT, StatusT]:
        return placed(self.resource, identity.own(obj, self.installation.name))

    def memory(self, uid: str) -> ManagedMemory:
        return ManagedMemory(uid)

    async def gather(
        self, turn: Turn, obj: Resource[SpecT, StatusT], memory: ManagedMemory
    ) -> Facts[SpecT, StatusT, ObsT]:
        known = memory.account is not None  # no webhook could report a change from before this process
        facts = await self.gatherer.gather(turn, with_begun(with_open_intent(obj, memory), memory), memory)
        if known and turn.priority is Priority.POLL and self._changed_untold(facts):
            self.accounts.found_by_polling(facts.usable_account)
        return facts

    def _changed_untold(self, facts: Facts[SpecT, StatusT, ObsT]) -> bool:
        if facts.observed is not None:
            state = self.resource.status(facts.obj, facts.observed).state
        else:
            state = "terminated" if facts.view.seen is Seen.GONE else facts.obj.status.state
        return state != facts.obj.status.state and state in self.resource.told_by_webhooks

    def plan(self, facts: Facts[SpecT, StatusT, ObsT]) -> Action:
        return plan(facts.view)

    async def preview(self, turn: Turn, body: bytes) -> Plan:
        """What would be done for a plan-only object; does nothing. Raises KubeError and pydantic's ValidationError."""
        facts = await self.gatherer.gather(turn, self.own(self.parse(body)), self.memory(turn.uid))
        action = plan(facts.view)
        report = report_of(facts, action, Nothing(), unreachable=facts.error is not None)
        return until_agreed(facts, action) if report is None else proposal(facts, action, report.message)

    def intent(self, facts: Facts[SpecT, StatusT, ObsT]) -> CreateIntent | None:
        return self.actor.guarding(facts)

    async def act(
        self, facts: Facts[SpecT, StatusT, ObsT], action: Action, memory: ManagedMemory, writer: ObjectWriter
    ) -> Result[ObsT]:
        try:
            result = await self.actor.act(facts, action, memory, writer)
        except Refused:  # nothing was written or sent: until the next attempt, others have what was granted
            self.actor.budgets.written(facts.key)
            raise
        self.actor.budgets.written(facts.key)
        if started := begins(facts, action, result):
            memory.begun = (facts.obj.status.id or "", started)
        if isinstance(result, Accepted):
            memory.full = (0, 0)
        if facts.former is not None and isinstance(action, EndFormer | DropFormer):
            refusal, now = result.error if isinstance(result, Rejected) else None, self.actor.clock()
            memory.unended = unended.noted(memory.unended, facts.former.id, refusal, self.retry_policy, now)
        if isinstance(action, Release) and facts.view.seen is not Seen.STOPPED and self.leaves(facts):
            self.actor.budgets.leaves_behind(facts.key)
        if isinstance(result, Accepted) and not facts.view.deleting:
            await self._keep(facts, result.resource, memory)
        memory.connection_lost = False
        if facts.view.paused:
            return result
        memory.unconnected = ""
        switches = isinstance(action, SwitchOver)
        waits = serving(facts.obj.status) is not None and not switches  # until the switch, others use the old one
        used = facts.serving if waits else facts.observed
        if used is not None and not facts.view.deleting:
            led = await self._connect(facts, used, memory)
            return Switched(used) if led and switches else result
        return result

    async def _keep(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, memory: ManagedMemory) -> None:
        """Write a value that is shown once to its Secret before status records the resource. Raises KubeError."""
        resource, (cloud_id, _) = self.resource, self.resource.identity(observed)
        if not shown_once(resource):
            return
        if shown := resource.shown(observed):
            memory.shown = Shown(cloud_id, shown)
        if memory.shown.cloud_id == cloud_id:
            place, uid = resource.kept_in(facts.obj), facts.obj.metadata.uid
            if not self.actor.leading():
                raise NotLeading
            await self.gatherer.values.keep(facts.key, uid, place, memory.shown, facts.kept)
            memory.shown = Shown()

    async def _connect(self, facts: Facts[SpecT, StatusT, ObsT], observed: ObsT, memory: ManagedMemory) -> bool:
        """Write the endpoint for others; returns whether everything that the spec asks for has it."""
        connection, uid = asked(facts.obj.spec).connection, facts.obj.metadata.uid
        if connection is None or not isinstance(self.resource, Connects):
            return True
        if predicates.refresh_asked(facts.obj):
            memory.connections.clear()
        # Once nothing changes any more, looks are polls; while a replacement is pending, none is.
        unchecked = facts.exact and facts.serving is None
        intact = unchecked or await self.connections.intact(facts.key, uid, connection, memory)
        reached = self.resource.reached(observed)
        if reached is None:
            memory.connection_lost = not intact
            return False
        memory.unconnected = await self.connections.write(facts.key, uid, connection, reached, memory)
        return not memory.unconnected and bool(reached.endpoint_url)

    def tell(
        self,
        turn: Turn,
        facts: Facts[SpecT, StatusT, ObsT],
        action: Action,
        result: Result[ObsT],
        memory: ManagedMemory,
    ) -> Told:
        obj, status = facts.obj, facts.obj.status
        unreachable = memory.unanswered >= self.unreachable_after
        report = report_of(facts, action, result, unreachable=unreachable)
        if report is not None:
            report = self._with_former(facts, _with_connection(report, memory), memory)
            report = self._with_looks(facts, action, result, report)
            status = new_status(facts, action, result, report, self.retry_policy)
        elif action == Wait(Reason.WAITING_FOR_RETRY) or isinstance(action, DropFormer):
            status = still_waiting(facts, action)
        deadlines = self._deadlines(obj.spec, status)
        # A time that had passed before was part of this decision.
        known = self._deadlines(obj.spec, obj.status) if deadlines else ()
        due = tuple(at for at in deadlines if at > facts.now or at not in known)

        def written() -> None:
            memory.begun = ("", {})

        once_written = written if memory.begun[1] else None
        before = before_begun(obj.status, memory)
        return Told(before, status, report, status.next_attempt_time, due, once_written=once_written)

    def _deadlines(self, spec: SpecT, status: StatusT) -> tuple[datetime, ...]:
        """Times at which a pass is due although nothing has changed."""
        moments = self.resource.life(spec, status).moments if shown_once(self.resource) else ()
        resting = (each.until for each in former(status) if each.until is not None)
        return (*predicates.deadlines(spec, status), *moments, *resting)

    def _with_former(self, facts: Facts[SpecT, StatusT, ObsT], report: Report, memory: ManagedMemory) -> Report:
        """The report, which says that a former resource cannot be ended, and returns for the next attempt."""
        has = {row.id for row in former(facts.obj.status)}
        rows = [row for row in memory.unended if row.cloud_id in has]
        if not rows or facts.error is not None or facts.view.former is Former.NONE:
            return report
        left = min(row.left(self.actor.clock()) for row in rows)
        awaited = left > 0 or facts.view.former is Former.REFUSED
        report = unended.told(report, rows[0])
        return unended.coming_back(report, left) if awaited else report

    def _with_looks(
        self, facts: Facts[SpecT, StatusT, ObsT], action: Action, result: Result[ObsT], report: Report
    ) -> Report:
        if isinstance(result, Accepted):
            made, _ = self.resource.identity(result.resource)
            return replace(report, back=Return.AT_ONCE) if made in facts.usable_account.unclaimed else report
        if facts.decided_in is not None and isinstance(action, Wait):
            return replace(report, looks=(*report.looks, (facts.decided_in, Priority.RETRY)))
        return report

    def paid(self, facts: Facts[SpecT, StatusT, ObsT], result: Result[ObsT]) -> PaidFor | None:
        """The accepted resource; None if nobody paid for it, or if only `adopt-id` makes it the object's so far."""
        if not isinstance(result, Accepted) or facts.view.seen is Seen.ADOPTEE or brought_in(self.resource):
            return None
        cloud_id, _ = self.resource.identity(result.resource)
        in_use = facts.view.seen is Seen.FOUND and facts.now - result.intent.started_at > _NEW
        return PaidFor(cloud_id, DeletionPolicy.DELETE, in_use)

    def leaves(self, facts: Facts[SpecT, StatusT, ObsT]) -> tuple[Left, ...]:
        """What stays by policy or `abandon`; a former object's resource that could not be taken over is an orphan.

        An open intent keeps only what has a name that this object gave.
        """
        status, intent, seen = facts.obj.status, facts.intent, facts.view.seen
        is_open = predicates.intent_open(facts.obj, intent)
        fate = Fate.ORPHAN if seen is Seen.WITHHELD else Fate.KEPT
        aside = tuple(Left(fate, each.id, each.name, *place_of(status.identity)) for each in former(status))
        if seen in {Seen.NOTHING, Seen.GONE} or not (status.id or is_open):
            return aside
        recorded = status.identity if status.id else intent.identity if intent is not None else None
        name = (status.cloud_name if status.id else intent.name if intent is not None else None) or ""
        cache, uid = self.actor.cache, facts.obj.metadata.uid
        if fate is Fate.KEPT and not (status.id or cache.only_giver(facts.key, uid, name, self.installation.name)):
            return aside
        where, endpoint = place_of(recorded)  # the endpoint in an intent may be written by hand
        return (*aside, Left(fate, status.id or "", name, where, endpoint if status.id else "", part_of(status)))

    def unrecorded(self, result: Result[ObsT], memory: ManagedMemory, why: str) -> Result[ObsT]:
        if isinstance(result, Accepted):
            memory.unsent.add(result.intent.token)
            # Another leader may not know yet that the resource is being ended: an open intent leads it there.
            failed = Rejected if self.actor.leading() else OutcomeUnknown
            return failed(BadRequest("create", why), result.intent)
        return result

    async def forget(self, key: ObjectKey, memory: ManagedMemory | None) -> None:
        """Takes the object out of the budgets' lines."""
        self.actor.budgets.leave(key)


def _with_connection(report: Report, memory: ManagedMemory) -> Report:
    """The report, which says instead of Ready why the endpoint could not be written."""
    if memory.connection_lost:
        return replace(report, back=Return.SOON)
    if not memory.unconnected:
        return report
    return replace(
        report,
        ready="False",
        trouble=ConditionType.STALLED,
        reason=Reason.CONNECTION_REFUSED,
        message=memory.unconnected,
    )
