"""What is remembered of a managed object between passes, in this process only."""

from dataclasses import dataclass, field

from relay_operator.api.meta import CreateIntent
from relay_operator.engine.account import AccountReady
from relay_operator.engine.memory import SearchingMemory
from relay_operator.flows.managed.shown_once import Shown


@dataclass(frozen=True, slots=True)
class SentChange:
    """A change that the cloud took."""

    cloud_id: str
    name: str
    to: str
    at: float


@dataclass(slots=True)
class ManagedMemory(SearchingMemory):
    """One object's; all times are monotonic seconds."""

    missing: tuple[str, float] = ("", 0.0)
    """The id that reads as not found, and since when."""
    intent: CreateIntent | None = None
    """The last one that this process opened, or saw open."""
    unsent: set[str] = field(default_factory=set)
    """Tokens of intents whose write may have landed, and whose create was surely not sent: this process did not."""
    terminated: tuple[str, float] = ("", 0.0)
    """The id for which a termination was last sent, and when."""
    sent: SentChange | None = None
    """The last one, until the cloud shows it, or has had time enough to."""
    discarded: str = ""
    """Token of the intent whose resource was found, and ended since its value is lost."""
    shown: Shown = field(default_factory=Shown)
    """What the cloud showed once, until the Secret has it."""
    connections: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Hashes of what was written for others to connect, by plural name: of all that decides it, and of the data."""
    env_digest: tuple[str, str] = ("", "")
    """The versions of the sources that were read last, and the digest of what they held."""
    account: AccountReady | None = None
    """The account as it was when the cloud was last asked."""
    unconnected: str = ""
    """What was in the way of writing where it is reached."""
    connection_lost: bool = False
    """What was written is gone by another hand, and only an exact look tells what was in it."""
