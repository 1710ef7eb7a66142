"""Everything that a decision of `plan.py` depends on."""

from dataclasses import dataclass
from enum import Enum, auto

from relay_operator.api.conditions import Reason
from relay_operator.engine.actions import Stall, Wait
from relay_operator.engine.rules import Account


class Demand(Enum):
    """What people want of the object."""

    EXIST = auto()
    DELETE = auto()
    DELETE_STOPPING = auto()  # deletionPolicy: Stop
    DELETE_ORPHANING = auto()  # deletionPolicy: Orphan
    DELETE_ABANDONING = auto()  # the annotation `abandon`


class Seen(Enum):
    """What is recorded, and what the cloud last said about it."""

    NOTHING = auto()  # no id, and no intent without a result: nothing of ours exists
    ADOPTEE = auto()  # `adopt-id` names a resource that may be adopted
    ADOPTEE_REFUSED = auto()  # it differs, belongs to another object, is gone, or adoption is not allowed
    TAKEN = auto()  # what the spec describes exists, and nothing proves that it is ours
    FOUND = auto()  # the resource of an open intent was found
    ABSENT = auto()  # surely not created: the search was complete, repeated and late enough
    UNSURE = auto()  # not found, but too early to say
    UNKNOWABLE = auto()  # the cloud offers no way to find out
    PENDING = auto()
    READY = auto()
    STOPPED = auto()
    INTERRUPTED = auto()
    FAILED = auto()
    GOING = auto()  # a termination was sent; not confirmed
    MISSING = auto()  # not found, but not yet often enough to believe it
    GONE = auto()  # confirmed terminated or not found
    FOREIGN = auto()  # the recorded id has another name or another holder: not ours to touch
    WITHHELD = auto()  # an earlier object of this name had it, and this one may not take it over
    BLIND = auto()  # something of ours may exist, and could not be read


SEARCHED = frozenset({Seen.FOUND, Seen.ABSENT, Seen.UNSURE, Seen.UNKNOWABLE})
RECORDED = frozenset(
    {Seen.PENDING, Seen.READY, Seen.STOPPED, Seen.INTERRUPTED, Seen.FAILED, Seen.GOING, Seen.MISSING, Seen.GONE}
)
THERE = RECORDED - {Seen.GOING, Seen.MISSING, Seen.GONE}


class Gate(Enum):
    """What holds back the next paid or refused attempt."""

    OPEN = auto()
    OUTDATED = auto()  # a CRD would drop what has to be recorded
    ACCOUNT_UNFIT = auto()  # the account is being deleted or subscribed, or lacks its finalizer
    ENV_MISSING = auto()
    UNSCHEDULED = auto()  # the schedule is unreadable
    RESTING = auto()  # nothing exists, and the schedule does not let it run
    LATER = auto()  # not before `status.nextAttemptTime`


class Undecided(Enum):
    """What may be done about an intent whose outcome cannot be found out."""

    HOLD = auto()
    RESEND = auto()  # account: createRecovery RetryByName
    GIVE_UP = auto()  # a person wrote `retry-create`


class Recovery(Enum):
    """What `spec.recovery` requests for the state seen, and only for that state."""

    NONE = auto()
    RESTART = auto()
    RECREATE = auto()


class Difference(Enum):
    """How the spec differs from the resource."""

    NONE = auto()
    CHANGE = auto()  # can be changed in place
    FORBIDDEN = auto()  # cannot, and updateStrategy is Never
    REPLACEABLE = auto()  # cannot, and updateStrategy is Recreate
    SUPERSEDED = auto()  # cannot, and another is created beside it
    BLUE_GREEN = auto()  # cannot, and another is created beside it, which takes its place once it is Ready
    GREEN_FAILED = auto()  # the same, and the one that was created for this very spec failed


class Former(Enum):
    """What to do about former resources."""

    NONE = auto()  # there is none
    KEPT = auto()  # each is in use, or could not be read
    UNUSED = auto()  # one is not in use
    REFUSED = auto()  # the cloud refused to end it, or shows something else: that is not tried again so soon
    GOING = auto()  # its termination was sent; not confirmed
    GONE = auto()  # its termination is confirmed
    SERVING = auto()  # the old one serves until the new one is Ready
    RELIEVED = auto()  # the old one serves, and the new one is Ready
    RETURNING = auto()  # the old one serves, and the new one is no longer desired


class Value(Enum):
    """What is known of a value that only the answer to the create shows."""

    NONE = auto()  # the kind has no such value, or it was not read
    KEPT = auto()  # the object's Secret has it
    DUE = auto()  # the Secret has it, and it ends so soon that it has to be replaced
    STUCK = auto()  # it is lost or due, and status can hold no more former ones
    EXPIRED = auto()  # the Secret has it, it is no longer valid, and no replacement is requested
    LOST = auto()  # the Secret does not have it
    TAKEN = auto()  # the Secret belongs to another object, or cannot be written


@dataclass(slots=True)  # not frozen: every pass makes one, and a frozen one is slow to make
class View:
    """Everything a decision depends on."""

    demand: Demand = Demand.EXIST
    finalizer: bool = True
    paused: bool = False
    plan_only: bool = False
    disabled: bool = False
    """The kind is disabled: its resources can only be ended."""
    account: Account = Account.READY
    seen: Seen = Seen.NOTHING
    gate: Gate = Gate.OPEN
    undecided: Undecided = Undecided.HOLD
    recovery: Recovery = Recovery.NONE
    end_asked: bool = False
    """People want the resource to end, and keep the object."""
    may_run: bool = False
    """It is PENDING, and may cost something."""
    held_back: bool = False
    """A restart or recreation has to wait, since several were made lately."""
    replacing: bool = False
    unended: bool = False
    """It is to be deleted, and the cloud has to be told to end it before it is believed that it is gone."""
    difference: Difference = Difference.NONE
    expired: bool = False
    change: str = ""
    """The name of the first change, if `difference` is CHANGE; of what cannot be looked at, `stop` or none."""
    sent: str = ""
    """The name of the change that was sent, and that the cloud does not show yet."""

    unfunded: Wait | Stall | None = None
    """The budgets' refusal of a create, a start or a scale-up."""

    unmet: Reason | None = None
    """Why an object that the spec refers to cannot be used; None for one that the resource was given already."""
    value: Value = Value.NONE
    in_use: bool = False
    """Another object uses the resource, which matters at its end; or is being made from it."""
    former: Former = Former.NONE

    @property
    def deleting(self) -> bool:
        return self.demand is not Demand.EXIST
