"""What is done about former resources: which is ended now, and whether it is gone. Asks for nothing but reads."""

from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Generic

from relay_client.errors import CloudError, CloudUnavailable, NotFound, Unreadable
from relay_operator.api.workload import Former as FormerResource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import Accounts, moved
from relay_operator.flows.managed import predicates, unended
from relay_operator.flows.managed.blue_green import serving, standing
from relay_operator.flows.managed.former import former, name_of, unused
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.resource import Look, ObsT, Progress
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Demand, Difference, Former, Seen


@dataclass(frozen=True, slots=True)
class FormerSight(Generic[ObsT]):
    """What was found out about former resources."""

    standing: Former
    row: FormerResource | None = None
    """The one that is to be ended, or that is gone."""
    serving: ObsT | None = None
    """The old one as the cloud shows it, while it serves."""


@dataclass(frozen=True, slots=True)
class FormerLooker(Generic[SpecT, StatusT, ObsT]):
    """Looks at the former resources of one kind's objects, one at a time."""

    looker: Looker[SpecT, StatusT, ObsT]
    accounts: Accounts
    longest_wait: timedelta
    """The longest that what is not this object's is left alone before another look."""

    async def look(
        self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT], difference: Difference
    ) -> FormerSight[ObsT]:
        """What to do about former resources, one at a time; they are not looked at while the object is paused."""
        obj, now = subject.obj, subject.turn.now
        if not former(obj.status):
            subject.memory.formers_missing = ("", 0.0)
            return FormerSight(Former.NONE)
        old, stands = serving(obj.status), standing(self.looker.resource, obj, sight.observed, difference, now)
        if obj.metadata.paused:
            return FormerSight(stands or Former.KEPT)
        try:
            if stands is None or old is None:
                return await self._out_of_service(subject, sight)
            if stands is Former.RELIEVED or sight.seen is Seen.BLIND:
                return FormerSight(stands)
            return await self._in_service(subject, old, stands)
        except CloudError as error:
            self.accounts.failed(subject.account, error)
            return FormerSight(stands or Former.KEPT)

    async def _in_service(
        self, subject: Subject[SpecT, StatusT], old: FormerResource, stands: Former
    ) -> FormerSight[ObsT]:
        """The old resource, which may be gone before the new one has its place. Raises CloudError."""
        found = await self._found(subject, old)
        if found is None:
            gone = self._absent(old, subject.memory) and not moved(subject.obj.status.identity, subject.endpoint)
            return FormerSight(Former.GONE, old) if gone else FormerSight(stands)
        observed, strange = found
        if strange:
            return FormerSight(stands)
        if self.looker.resource.progress(observed) is Progress.GONE:
            return FormerSight(Former.GONE, old)
        return FormerSight(stands, serving=observed)

    async def _found(self, subject: Subject[SpecT, StatusT], row: FormerResource) -> tuple[ObsT, str] | None:
        """What the cloud shows under the id, and why that is not the object's; None if nothing. Raises CloudError."""
        looker = self.looker
        try:
            observed = await looker.resource.observe(subject.account.cloud, row.id, subject.obj.status, Look.EXACT)
            strange = looker.strange(subject, row.id, name_of(row), observed)
        except NotFound:
            return None
        subject.memory.formers_missing = ("", 0.0)
        subject.memory.former_shown = ("", "") if strange else (row.id, subject.endpoint)
        return observed, strange

    def _absent(self, row: FormerResource, memory: ManagedMemory) -> bool:
        """Whether the cloud has not found it for long enough."""
        if memory.formers_missing[0] != row.id:
            memory.formers_missing = (row.id, self.looker.clock())
        return self.looker.clock() - memory.formers_missing[1] >= self.looker.delays.absence

    async def _out_of_service(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT]) -> FormerSight[ObsT]:
        """The resources that are ended once nothing uses them. Raises CloudError."""
        looker, turn, obj, memory = self.looker, subject.turn, subject.obj, subject.memory
        lives = predicates.demand(obj) is Demand.EXIST
        unneeded = unused(obj.status, looker.cache, turn.key, turn.now if lives else None)
        left = {row.cloud_id: row.left(looker.clock()) for row in memory.unended}
        # What was not tried yet comes first, so that one that cannot be ended keeps no other from its end.
        idle = min(unneeded, key=lambda row: left.get(row.id, -inf), default=None)
        if idle is None:
            memory.formers_missing = ("", 0.0)
        if idle is None or (lives and sight.seen is Seen.BLIND):
            return FormerSight(Former.KEPT)
        ended, at = memory.former_terminated
        sent = ended == idle.id
        waits = left.get(idle.id, 0.0) > 0 and not predicates.refresh_asked(obj)
        alive = Former.REFUSED if waits else Former.UNUSED
        try:
            found = await self._found(subject, idle)
        except (CloudUnavailable, Unreadable):
            if lives or not subject.account.admits or memory.former_shown != (idle.id, subject.endpoint):
                raise
            return FormerSight(Former.GOING if sent else alive, idle)  # it costs, and this process knows whose it is
        if found is None:
            absent = self._absent(idle, memory)
            present = sight.observed is not None and predicates.shown(looker.resource, obj, sight.observed)
            shown = present or memory.former_shown == (idle.id, subject.endpoint)
            gone = absent and (shown or not moved(obj.status.identity, subject.endpoint))
            return FormerSight((Former.GONE if gone else Former.GOING) if sent else alive, idle)
        observed, strange = found
        if strange:
            wait = self.longest_wait.total_seconds()
            memory.unended = unended.foreign(memory.unended, idle.id, strange, looker.clock(), wait)
            return FormerSight(Former.REFUSED, idle)
        if looker.resource.progress(observed) is Progress.GONE:
            return FormerSight(Former.GONE, idle)
        going = sent and looker.clock() - at < looker.delays.termination
        return FormerSight(Former.GOING if going else alive, idle)
