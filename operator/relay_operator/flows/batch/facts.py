"""Everything known about a batch in one pass."""

from dataclasses import dataclass, field
from datetime import datetime

from relay_client.errors import CloudError
from relay_operator.api.inferencebatch import Ending, InferenceBatch, InferenceBatchStatus, PartStatus
from relay_operator.api.meta import CreateIntent, Identity, ObjectKey
from relay_operator.engine.account import AccountState, UsesAccount
from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.batch import predicates
from relay_operator.flows.batch.plan import BatchDemand, EndingState, Phase, View
from relay_operator.flows.batch.result import WorkResult
from relay_wire.batches import Batch, BatchStatus


@dataclass(frozen=True, slots=True)
class Facts(UsesAccount):
    """What a pass gathered; everything after is decided from it alone."""

    key: ObjectKey
    obj: InferenceBatch
    now: datetime
    account: AccountState
    view: View
    status: InferenceBatchStatus
    """The object's status, updated with what the cloud says about its batches."""
    intent: CreateIntent | None = None
    found: tuple[Batch, ...] = ()
    """Batches with this object's tag that status does not record, found by a search."""
    ending: Ending | None = None
    """Why the batch has to end; None if it need not."""
    error: CloudError | None = None
    """Why the cloud could not be read; None if it could."""
    note: str = ""
    came: WorkResult | None = None
    """The result of long work that has ended; None if there is none."""
    unfunded: bool = False
    """Whether the account's balance is below the cloud's floor."""
    outdated: str = ""
    """Why nothing may be created, and what to do, since a CRD is older than this release; empty if none is."""

    @property
    def known_intent(self) -> CreateIntent:
        """The intent, which every name in the cloud depends on."""
        if self.intent is None:
            raise AssertionError(f"{self.key}: the plan names something in the cloud without an intent")
        return self.intent

    @property
    def sent_for(self) -> Identity | None:
        """Whose the next batch is, and in which cloud: the account may have got another URL before the first one."""
        return predicates.made_for(self.status, self.known_intent.identity)


@dataclass(slots=True)
class BatchMemory(SearchingMemory):
    """What this process remembers of one batch; safety needs none of it. Times are monotonic seconds."""

    clean: bool = False
    """Whether every upload of this object was answered, in this process, so that no file needs a search."""
    knows_all: bool = False
    """Whether status has every batch of this object: this process began it, or compared it with the cloud's list."""
    intent: CreateIntent | None = None
    """The intent by which this process searches for batches that status may lack."""
    unsent: str = ""
    """The intent, or the create of a part, that was written down, maybe without an answer, and not sent since."""
    cancelled: dict[str, float] = field(default_factory=dict)
    """When each batch was last asked to cancel."""
    shown: set[str] = field(default_factory=set)
    """Batches that this process knows to be this object's, until the cloud refuses to cancel one, or does not answer.

    The next look that shows such a batch adds it again.
    """
    missing: dict[str, float] = field(default_factory=dict)
    """Since when the cloud has not found each batch, or shows it as final without its answers."""
    told_at: float = 0.0
    """When progress was last written."""


def running(status: InferenceBatchStatus, memory: BatchMemory) -> list[PartStatus]:
    """Parts whose batch runs, or may run: one that the cloud does not find is cancelled once."""
    unended = [part for part in predicates.gone(status) if part.batch_id not in memory.cancelled]
    return [*predicates.live(status), *unended]


def cancellable(status: InferenceBatchStatus, memory: BatchMemory) -> list[PartStatus]:
    """Parts whose batch may run, and that the cloud does not show as being cancelled."""
    return [part for part in running(status, memory) if part.state != BatchStatus.CANCELLING]


def running_unseen(status: InferenceBatchStatus, memory: BatchMemory) -> list[PartStatus]:
    """Parts to cancel without a look: this process knows whose their batches are."""
    return [part for part in cancellable(status, memory) if part.batch_id in memory.shown - memory.cancelled.keys()]


def with_suspension(obj: InferenceBatch, status: InferenceBatchStatus, memory: BatchMemory) -> InferenceBatchStatus:
    """The status, which records a suspension that this process carried out, but could not record before it was over."""
    cut = any(
        part.state in predicates.CUT and part.batch_id in memory.cancelled for part in predicates.this_round(status)
    )
    lives = predicates.demand(obj) is BatchDemand.EXIST and status.ending is None
    return status.model_copy(update={"suspended": True}) if cut and lives else status


def ending_of(facts: Facts) -> tuple[Ending | None, EndingState]:
    """Why the batch ends without being complete, and whether that is recorded."""
    if facts.obj.status.ending is not None:
        return facts.obj.status.ending, EndingState.RECORDED
    due = predicates.ending(facts.obj.spec, facts.status, facts.now)
    is_due = due is not None and facts.view.phase is Phase.ACTIVE
    return due, EndingState.DUE if is_due else EndingState.NONE
