"""The actions of one pass over one batch, as types."""

from dataclasses import dataclass
from enum import Enum, auto

from relay_operator.engine.actions import Expire, Ignore, Keep, Release, Stall, Wait


class Work(Enum):
    """Work that takes longer than a pass may, and so runs beside it."""

    SEND = auto()  # read, check and upload the records of the round
    PUBLISH = auto()  # read the results and write them where they belong
    CLEAR = auto()  # delete the operator's files from the cloud


@dataclass(frozen=True, slots=True)
class Begin:
    """Write finalizer and intent; from then on the cloud may have something of this object."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Record the batch found for a create without an answer, or all batches after a loss of status."""


@dataclass(frozen=True, slots=True)
class Close:
    """Record that the create whose answer was lost surely never happened, so that it may be sent again."""


@dataclass(frozen=True, slots=True)
class Start:
    """Begin long work, unless it already runs."""

    work: Work


@dataclass(frozen=True, slots=True)
class Record:
    """Record the result of long work."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Create the next batch: the only action that spends money."""


@dataclass(frozen=True, slots=True)
class End:
    """Record that the batch ends, and why; later actions carry it out."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel every batch that still runs."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Record that suspend ended the round; records without an answer are sent when the batch resumes."""


@dataclass(frozen=True, slots=True)
class Again:
    """Begin another round, with the records that failed or have no answer."""


@dataclass(frozen=True, slots=True)
class BeginPublication:
    """Record that the output may from now on be this batch's own."""


@dataclass(frozen=True, slots=True)
class Finish:
    """Record how the batch ended, if there is nothing to publish."""


OnlyReported = Ignore | Adopt | Close | End | Rest | Again | Finish | Release | Expire | Wait | Stall | Keep
"""The actions that neither send nor begin anything: the report of the pass is all of them."""
Action = Begin | Start | Record | Submit | Cancel | BeginPublication | OnlyReported
