"""What can be done with one batch in one pass. Actions are types; `act` matches them exhaustively."""

from dataclasses import dataclass
from enum import Enum, auto

from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait


class Work(Enum):
    """What takes longer than a pass may, and so is done beside it."""

    SEND = auto()  # read, check and upload the records of the round
    PUBLISH = auto()  # read the results and write them where they belong
    CLEAR = auto()  # delete our files from the cloud


@dataclass(frozen=True, slots=True)
class Begin:
    """Write finalizer and intent: from here on something of ours may be in the cloud."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record what a search found: a batch whose create's answer was lost, or all of them where status was."""


@dataclass(frozen=True, slots=True)
class Close:
    """Record that what was searched for was surely never created, so that it may be sent."""


@dataclass(frozen=True, slots=True)
class Start:
    """Begin long work, unless it is under way."""

    work: Work


@dataclass(frozen=True, slots=True)
class Record:
    """Write down what long work came to."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Create the next batch: the only action that spends money."""


@dataclass(frozen=True, slots=True)
class End:
    """Write down that it ends, and why; what follows carries it out."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel every batch that still runs."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Write down that suspend ended the round: what has no answer is sent when it goes on."""


@dataclass(frozen=True, slots=True)
class Again:
    """Begin another round, with the records that failed or have no answer."""


@dataclass(frozen=True, slots=True)
class BeginPublication:
    """Write down that what is at the output from here on may be this batch's own."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Write down how it ended, if nothing is to be published."""


Action = (
    Ignore
    | Begin
    | Adopt
    | Close
    | Start
    | Record
    | Submit
    | End
    | Cancel
    | Rest
    | Again
    | BeginPublication
    | Finish
    | Release
    | Expire
    | Wait
    | Stall
    | Keep
)
