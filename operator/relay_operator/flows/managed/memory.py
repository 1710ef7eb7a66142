"""What is remembered of a managed object between passes, in this process only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relay_operator.api.meta import CreateIntent
from relay_operator.engine.account import AccountReady
from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.managed.actions import Delete, Update
from relay_operator.flows.managed.shown_once import Shown
from relay_operator.flows.managed.unended import Unended


@dataclass(frozen=True, slots=True)
class SentChange:
    """A change that the cloud accepted."""

    cloud_id: str
    name: str
    to: str
    at: float


@dataclass(slots=True)
class ManagedMemory(SearchingMemory):
    """The memory of one object; all times are monotonic seconds."""

    awaited: tuple[str, float] = ("", 0.0)
    """Token of the intent whose resource a webhook may name, and since when this process has waited for that."""
    known: tuple[str, float] = ("", 0.0)
    """The id of the resource, and since when this process has known that it was created."""
    foreign: str = ""
    """The id in status, if the cloud showed another's resource under it when it showed one last."""
    missing: tuple[str, float] = ("", 0.0)
    """The id that the cloud does not find, and since when."""
    former_shown: tuple[str, str] = ("", "")
    """The former resource that the cloud showed last as the object's, and which cloud did."""
    formers_missing: tuple[str, float] = ("", 0.0)
    """The same of a former resource that is to be ended."""
    intent: CreateIntent | None = None
    """The last intent that this process opened, or saw open."""
    unsent: set[str] = field(default_factory=set)
    """Tokens of intents whose write may have landed, and whose create this process surely did not send."""
    terminated: tuple[str, float] = ("", 0.0)
    """The id whose termination was last sent, and when; it is not a former one's."""
    silent: Delete | Update | None = None
    """What was sent although the last look had failed, if the cloud did not answer that, either."""
    former_terminated: tuple[str, float] = ("", 0.0)
    """The same of a former resource."""
    unended: tuple[Unended, ...] = ()
    """Former resources that cannot be ended now."""
    full: tuple[int, int] = (0, 0)
    """The generation of a spec, and the requests that the cloud refused for lack of room since the last resource."""
    sent: SentChange | None = None
    """The last change, until the cloud shows it, or has had enough time to."""
    begun: tuple[str, Mapping[str, object]] = ("", {})
    """The id of the resource whose start or restart was sent, and what status is to say of that, until it does."""
    as_read: Mapping[str, object] = field(default_factory=dict)
    """What status said of the same when this pass read it."""
    discarded: str = ""
    """Token of the intent whose resource was found, and ended since its value is lost."""
    shown: Shown = field(default_factory=Shown)
    """A value that the cloud showed once, until the Secret has it."""
    connections: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Hashes of what was written for others to connect, by plural name: of everything behind it, and of the data."""
    env_digest: tuple[bytes, str] = (b"", "")
    """A plain hash of the values that were read last, and their digest."""
    account: AccountReady | None = None
    """The account as of the last pass that used it."""
    unconnected: str = ""
    """Why the endpoint could not be written; empty if it could."""
    connection_lost: bool = False
    """Whether others removed what was written, so that only an exact look shows what to write."""
