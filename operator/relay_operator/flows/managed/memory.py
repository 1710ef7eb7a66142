"""What the engine remembers of an object between passes, in this process only.

Nothing here may be needed for safety: a new process starts with none of it and only takes longer to be sure.
"""

from dataclasses import dataclass, field

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady


@dataclass(slots=True)
class Memory:
    """One object's; all times are monotonic seconds."""

    uid: str
    missing: tuple[str, float] = ("", 0.0)
    """The id that reads as not found, and since when."""
    searched: str = ""
    """The open intent's name that the lists below were searched for."""
    not_seen: int = 0
    """Complete lists in a row that did not have it."""
    not_seen_at: float = 0.0
    unsent: set[str] = field(default_factory=set)
    """Tokens of intents whose write may have landed, and whose create was surely not sent: this process did not."""
    terminated: tuple[str, float] = ("", 0.0)
    """The id for which a termination was last sent, and when."""
    unanswered: int = 0
    """Looks in a row that the cloud did not answer."""
    kube_failures: int = 0
    """Passes in a row that the Kubernetes API did not let finish."""
    quiet_looks: int = 0
    """Looks in a row that showed nothing different: transitions are polled ever more slowly."""
    connections: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Hashes of what was written for others to connect, by plural name: of all that decides it, and of the data."""
    env_digest: tuple[str, str] = ("", "")
    """The versions of the sources that were read last, and the digest of what they held."""
    account: AccountReady | None = None
    """The account as it was when the cloud was last asked."""


@dataclass(slots=True)
class Memories:
    """Every object's memory; a namesake with another uid starts afresh."""

    _by_key: dict[ObjectKey, Memory] = field(default_factory=dict)

    def of(self, key: ObjectKey, uid: str) -> Memory:
        memory = self._by_key.get(key)
        if memory is None or memory.uid != uid:
            memory = self._by_key[key] = Memory(uid)
        return memory

    def drop(self, key: ObjectKey) -> None:
        self._by_key.pop(key, None)
