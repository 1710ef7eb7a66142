"""What is done about former resources: which is ended now, and whether it is gone. Asks for nothing but reads."""

from dataclasses import dataclass
from datetime import timedelta
from math import inf
from typing import Generic

from relay_client.errors import CloudError, NotFound
from relay_operator.api.meta import Resource
from relay_operator.api.workload import Former as FormerResource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import AccountReady, Accounts, moved
from relay_operator.engine.flow import Turn
from relay_operator.flows.managed import predicates, unended
from relay_operator.flows.managed.blue_green import standing
from relay_operator.flows.managed.former import former, name_of, unused
from relay_operator.flows.managed.look import Looker
from relay_operator.flows.managed.memory import ManagedMemory
from relay_operator.flows.managed.resource import Look, ObsT, Progress
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.view import Demand, Difference, Former, Seen


@dataclass(frozen=True, slots=True)
class FormerLooker(Generic[SpecT, StatusT, ObsT]):
    """Looks at the former resources of one kind's objects, one at a time."""

    looker: Looker[SpecT, StatusT, ObsT]
    accounts: Accounts
    longest_wait: timedelta
    """The longest that what is not this object's is left alone before another look."""

    async def look(
        self,
        turn: Turn,
        obj: Resource[SpecT, StatusT],
        account: AccountReady,
        memory: ManagedMemory,
        sight: Sight[ObsT],
        difference: Difference,
    ) -> tuple[Former, FormerResource | None]:
        """What to do about former resources, one at a time, and the one that it is about."""
        looker = self.looker
        if not former(obj.status):
            memory.formers_missing = ("", 0.0)
            return Former.NONE, None
        in_service = standing(looker.resource, obj, sight.observed, difference, turn.now)
        if in_service is not None:
            return in_service, None
        lives = predicates.demand(obj) is Demand.EXIST
        unneeded = unused(obj.status, looker.cache, turn.key, turn.now if lives else None)
        left = {row.cloud_id: row.left(looker.clock()) for row in memory.unended}
        # What was not tried yet comes first, so that one that cannot be ended keeps no other from its end.
        idle = min(unneeded, key=lambda row: left.get(row.id, -inf), default=None)
        if idle is None:
            memory.formers_missing = ("", 0.0)
        if idle is None or sight.seen is Seen.BLIND:
            return Former.KEPT, None
        ended, at = memory.former_terminated
        sent = ended == idle.id
        waits = left.get(idle.id, 0.0) > 0 and not predicates.refresh_asked(obj)
        alive = Former.REFUSED if waits else Former.UNUSED
        try:
            observed = await looker.resource.observe(account.cloud, idle.id, obj.status, Look.EXACT)
            strange = looker.strange(obj, idle.id, name_of(idle), observed, account)
        except NotFound:
            if memory.formers_missing[0] != idle.id:
                memory.formers_missing = (idle.id, looker.clock())
            absent = looker.clock() - memory.formers_missing[1] >= looker.delays.absence
            here = account.endpoints.of(turn.key.kind)
            present = sight.observed is not None and predicates.shown(looker.resource, obj, sight.observed)
            shown = present or memory.former_shown == (idle.id, here)
            gone = absent and (shown or not moved(obj.status.identity, here))
            return (Former.GONE if gone else Former.GOING) if sent else alive, idle
        except CloudError as error:
            self.accounts.failed(account, error)
            return Former.KEPT, None
        memory.formers_missing = ("", 0.0)
        if strange:
            wait = self.longest_wait.total_seconds()
            memory.unended = unended.foreign(memory.unended, idle.id, strange, looker.clock(), wait)
            return Former.REFUSED, idle
        memory.former_shown = (idle.id, account.endpoints.of(turn.key.kind))
        if looker.resource.progress(observed) is Progress.GONE:
            return Former.GONE, idle
        return Former.GOING if sent and looker.clock() - at < looker.delays.termination else alive, idle
