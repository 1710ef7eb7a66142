"""What holds back the next paid or refused attempt."""

from dataclasses import dataclass
from datetime import timedelta

from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.account import AccountReady, Accounts, unguarded
from relay_operator.engine.cache import Cache
from relay_operator.engine.conditions import is_unfunded
from relay_operator.flows.managed import predicates, recovery, schedule
from relay_operator.flows.managed.resource import ObsT
from relay_operator.flows.managed.search import Sight
from relay_operator.flows.managed.subject import Subject
from relay_operator.flows.managed.view import Demand, Gate, Seen


@dataclass(frozen=True, slots=True)
class Gated:
    """A gate with its message, and the seconds until a look can tell more, if it can."""

    gate: Gate
    note: str
    decided_in: float | None


@dataclass(frozen=True, slots=True)
class Gates:
    """Finds the gate of one kind's objects."""

    accounts: Accounts
    cache: Cache
    longest_wait: timedelta
    """The longest that a refused attempt waits."""

    def look(self, subject: Subject[SpecT, StatusT], sight: Sight[ObsT], *, missing: bool) -> Gated:
        """The gate as far as it depends on no input; `missing`: a create would come next."""
        turn, obj = subject.turn, subject.obj
        gate, note = self._gate(subject), sight.note
        if predicates.demand(obj) is Demand.EXIST and (held := schedule.gate(obj.spec, sight.seen, turn.now)):
            gate, note = held
        if turn.outdated and (gate is not Gate.LATER or sight.seen in {Seen.NOTHING, Seen.UNKNOWABLE}):
            gate = Gate.OUTDATED
        unfit = self.unfit(subject.account) if missing and gate is Gate.OPEN else None
        return unfit or Gated(gate, note, sight.decided_in)

    def unfit(self, account: AccountReady) -> Gated | None:
        """Why nothing is created with the account now; None if something may be."""
        if told := unguarded(account.key, self.cache.get(account.key)):
            return Gated(Gate.ACCOUNT_UNFIT, told, None)
        if deaf_for := self.accounts.deaf_for(account):
            told = f"{account.key} is being subscribed to the cloud's webhooks; nothing is created before that"
            return Gated(Gate.ACCOUNT_UNFIT, told, deaf_for)
        return None

    def _gate(self, subject: Subject[SpecT, StatusT]) -> Gate:
        """The gate of the agreed attempt: a wait ends once the account has more funds, another key, or another spec.

        These may allow what was refused. If an earlier process was refused for lack of funds, this one tries again at
        once, since it does not know of that.
        """
        obj, account, memory = subject.obj, subject.account, subject.memory
        same, longest = memory.account in (None, account), max(self.longest_wait, recovery.LONGEST_WAIT)
        memory.account = account
        memory.unended = memory.unended if same else ()
        funded = is_unfunded(obj.status.conditions) and not self.accounts.lacks_funds(account, subject.key)
        return Gate.OPEN if funded or not same else predicates.gate(obj, subject.turn.now, longest)
