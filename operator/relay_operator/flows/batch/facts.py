"""Everything that is known of a batch in one pass."""

from dataclasses import dataclass, field
from datetime import datetime

from relay_client.errors import CloudError
from relay_operator.api.inferencebatch import Ending, InferenceBatch, InferenceBatchStatus
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.account import AccountState, UsesAccount
from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.batch.plan import View
from relay_operator.flows.batch.result import WorkResult
from relay_wire.batches import Batch


@dataclass(frozen=True, slots=True)
class Facts(UsesAccount):
    """Gathered once; what follows is decided from it alone."""

    key: ObjectKey
    obj: InferenceBatch
    now: datetime
    account: AccountState
    view: View
    status: InferenceBatchStatus
    """The object's, with what the cloud says of its batches."""
    intent: CreateIntent | None = None
    found: tuple[Batch, ...] = ()
    """What a search found: batches with this object's tag that no status tells of."""
    ending: Ending | None = None
    """Why it has to end, if it does."""
    error: CloudError | None = None
    """Why the cloud could not be looked at."""
    note: str = ""
    came: WorkResult | None = None
    """What long work came to."""
    outdated: str = ""
    """Why nothing may be created, and what to do: a CRD is older than this release."""

    @property
    def known_intent(self) -> CreateIntent:
        """The intent of whatever is named in the cloud: nothing is, before there is one."""
        if self.intent is None:
            raise AssertionError(f"{self.key}: the plan names something in the cloud without an intent")
        return self.intent


@dataclass(slots=True)
class BatchMemory(SearchingMemory):
    """What this process remembers of one batch; nothing here may be needed for safety. Times are monotonic."""

    clean: bool = False
    """Every upload of this object had its answer, in this process: none has to be searched for in the list of files."""
    cancelled: dict[str, float] = field(default_factory=dict)
    """When each batch was last told to end."""
    missing: dict[str, float] = field(default_factory=dict)
    """Since when batches read as not found."""
    told_at: float = 0.0
    """When progress was last written."""
