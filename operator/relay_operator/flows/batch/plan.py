"""What to do next with a batch, decided without I/O from a small view.

`RULES` is the specification: the first rule that applies wins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

from relay_operator.api.conditions import Reason
from relay_operator.engine import rules
from relay_operator.engine.actions import Expire, Keep, Release, Stall, Wait
from relay_operator.engine.rules import Account
from relay_operator.flows.batch.actions import (
    Action,
    Adopt,
    Again,
    Begin,
    BeginPublication,
    Cancel,
    Close,
    End,
    Finish,
    Record,
    Rest,
    Start,
    Submit,
    Work,
)


class BatchDemand(Enum):
    """What people want of the object."""

    EXIST = auto()
    SUSPEND = auto()
    DELETE = auto()  # deletionPolicy: PublishPartial
    DELETE_DISCARDING = auto()  # deletionPolicy: Discard
    DELETE_ORPHANING = auto()  # deletionPolicy: Orphan
    DELETE_ABANDONING = auto()  # the annotation `abandon`


class Phase(Enum):
    """The batch's progress, as far as it is recorded."""

    NEW = auto()  # no intent: nothing was ever sent
    ACTIVE = auto()
    PUBLISHING = auto()  # writing the output has begun
    FINISHED = auto()  # the outcome is recorded; the operator's files may still be in the cloud
    CLEARED = auto()  # nothing is left in the cloud
    EXPIRED = auto()  # the same, and ttlSecondsAfterFinished is over


class Sight(Enum):
    """What the cloud answered, if it was asked."""

    CLEAR = auto()  # no question was open, or all is known
    BLIND = auto()  # the cloud may have something of this object, and could not be read
    FOUND = auto()  # the cloud acted on a create whose answer was lost
    ABSENT = auto()  # it surely did not: the search was complete, repeated and late enough
    UNSURE = auto()  # not found, but too early to tell; or not looked for yet
    UNREADABLE = auto()  # the intent is unreadable: what was sent is unknown


class Round(Enum):
    """What the current round still needs."""

    UNSENT = auto()  # its records are not uploaded
    HELD = auto()  # its batches wait for the pause after failures to end
    UNPAID = auto()  # some of its batches are not created
    SENT = auto()  # all of its batches are created
    OVER_MORE = auto()  # all are final, and some records must be sent again
    OVER = auto()  # all are final, and nothing needs to be sent again


class Live(Enum):
    """Whether batches run in the cloud."""

    NONE = auto()
    RUNNING = auto()
    CANCELLING = auto()


class Holds(Enum):
    """What the cloud has of this object."""

    NOTHING = auto()
    FILES = auto()  # uploads without results
    RESULTS = auto()


class Transfer(Enum):
    """The state of long work beside the queue."""

    IDLE = auto()
    BUSY = auto()
    DONE = auto()  # its result is not recorded yet


class EndingState(Enum):
    """Whether the batch ends without being complete: deadline, budget, refused by the cloud."""

    NONE = auto()
    DUE = auto()
    RECORDED = auto()


@dataclass(frozen=True, slots=True)
class View:
    """Everything a decision depends on."""

    demand: BatchDemand = BatchDemand.EXIST
    finalizer: bool = True
    paused: bool = False
    account: Account = Account.READY
    phase: Phase = Phase.ACTIVE
    sight: Sight = Sight.CLEAR
    round: Round = Round.SENT
    live: Live = Live.NONE
    holds: Holds = Holds.NOTHING
    transfer: Transfer = Transfer.IDLE
    ending: EndingState = EndingState.NONE
    rested: bool = False
    """Whether suspend ended the last round, and the deadline's clock stands."""
    waiting: bool = False
    """Whether the next attempt is scheduled for later."""
    misplaced: bool = False
    """Whether paid answers do not fit into the output, and nothing has changed since the status said so."""
    outdated: bool = False
    """Whether an old CRD would drop fields that must be recorded."""

    @property
    def deleting(self) -> bool:
        return self.demand not in {BatchDemand.EXIST, BatchDemand.SUSPEND}

    @property
    def halted(self) -> bool:
        """Whether nothing more may be sent."""
        return self.demand is not BatchDemand.EXIST or self.ending is EndingState.RECORDED


Rule = Callable[[View], Action | None]

UNSEEN = frozenset({Sight.BLIND, Sight.UNSURE})
"""Sights in which the batches that status records were not looked at."""
_SEARCHED: dict[Sight, Action] = {
    Sight.BLIND: Wait(Reason.CLOUD_UNAVAILABLE),
    Sight.UNSURE: Wait(Reason.SEARCHING),
    Sight.FOUND: Adopt(),
    Sight.ABSENT: Close(),
    Sight.UNREADABLE: Stall(Reason.CREATE_OUTCOME_UNKNOWN),
}


def _let_go(view: View) -> Action | None:
    return Release() if view.demand is BatchDemand.DELETE_ABANDONING else None


def _nothing_there(view: View) -> Action | None:
    """Needs no account to release an object without anything in the cloud, or to leave it as it is."""
    if view.phase not in {Phase.NEW, Phase.CLEARED, Phase.EXPIRED}:
        return None
    if view.deleting:
        return Release()
    if view.phase is Phase.EXPIRED:
        return Expire()
    return Keep() if view.phase is Phase.CLEARED else None


def _suspended_before(view: View) -> Action | None:
    return Wait(Reason.SUSPENDED) if view.phase is Phase.NEW and view.demand is BatchDemand.SUSPEND else None


def _orphan(view: View) -> Action | None:
    """What stays in the cloud is recorded with the release, so that a create without an answer is found out first."""
    return Release() if view.demand is BatchDemand.DELETE_ORPHANING and view.sight is Sight.CLEAR else None


def _account(view: View) -> Action | None:
    return rules.WITHOUT_ACCOUNT.get(view.account)


def _unseen(view: View) -> Action | None:
    """What costs and is to end is cancelled though it is not looked at now."""
    unwanted = view.halted and view.demand is not BatchDemand.DELETE_ORPHANING
    return Cancel() if view.sight in UNSEEN and unwanted and view.live is Live.RUNNING else None


def _end_unseen(view: View) -> Action | None:
    """What is known, or was seen of some of its batches, may suffice to end it."""
    return _end(view) if view.sight is Sight.BLIND else None


def _search(view: View) -> Action | None:
    return _SEARCHED.get(view.sight)


def _record(view: View) -> Action | None:
    return Record() if view.transfer is Transfer.DONE else None


def _begin(view: View) -> Action | None:
    if view.phase is not Phase.NEW:
        return None
    return _creating(view, Begin())


def _clear(view: View) -> Action | None:
    return _patiently(view, Start(Work.CLEAR)) if view.phase is Phase.FINISHED else None


def _publish(view: View) -> Action | None:
    if view.phase is not Phase.PUBLISHING:
        return None
    if view.demand is BatchDemand.DELETE_DISCARDING:
        return Finish()
    return _patiently(view, Start(Work.PUBLISH))


def _misplaced(view: View) -> Action | None:
    return Wait(Reason.OUTPUT_TOO_LARGE) if view.misplaced else None


def _end(view: View) -> Action | None:
    return End() if view.ending is EndingState.DUE and not view.deleting else None


def _stop(view: View) -> Action | None:
    """Send nothing more: cancel what runs, and publish what there is."""
    if not view.halted:
        return None
    if view.live is Live.RUNNING:
        return Cancel()
    if view.live is Live.CANCELLING:
        return Wait(Reason.CANCELLING)
    if view.demand is BatchDemand.SUSPEND and view.ending is not EndingState.RECORDED:
        return _suspend(view)
    if view.holds is Holds.RESULTS and view.demand is not BatchDemand.DELETE_DISCARDING:
        return BeginPublication()
    return Finish()


def _suspend(view: View) -> Action:
    """Publish if everything was answered before it could be cancelled; else rest."""
    if view.round is Round.OVER:
        return BeginPublication()
    return Wait(Reason.SUSPENDED) if view.rested else Rest()


def _go_on(view: View) -> Action:
    match view.round:
        case Round.UNSENT:
            return _patiently(view, Start(Work.SEND))
        case Round.HELD:
            return Wait(Reason.RETRYING)
        case Round.UNPAID:
            return _creating(view, Submit())
        case Round.SENT:
            return Keep()
        case Round.OVER_MORE:
            return Wait(Reason.WAITING_FOR_RETRY) if view.waiting else Again()
        case Round.OVER:
            return BeginPublication()
        case _ as never:
            assert_never(never)


def _creating(view: View, create: Begin | Submit) -> Action:
    if view.outdated:
        return Stall(Reason.CRD_OUTDATED)
    return Wait(Reason.WAITING_FOR_RETRY) if view.waiting else create


def _patiently(view: View, start: Start) -> Action:
    return Wait(Reason.WAITING_FOR_RETRY) if view.waiting and view.transfer is Transfer.IDLE else start


RULES: tuple[Rule, ...] = (
    rules.not_ours,
    _let_go,
    rules.paused,
    _nothing_there,
    _suspended_before,
    _orphan,
    _account,
    _unseen,
    _end_unseen,
    _search,
    _record,
    _begin,
    _clear,
    _publish,
    _misplaced,
    _end,
    _stop,
)


def plan(view: View) -> Action:
    """The first rule of `RULES` that applies; the round's next step if none does."""
    return rules.first(RULES, view) or _go_on(view)
