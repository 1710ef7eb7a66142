"""What makes containers of what the rows want, as a transaction has it: `tx.runtime`.

The rows are the truth of what is wanted. Whoever changes them tells the runtime so in the same transaction, and waits
for nothing. What a runtime sees it reports in later transactions; the tables of states alone say what that means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Protocol

BOOT: Final = "boot"
CLOUD_INIT: Final = "cloud-init"
"""Whose line of a VM's log it is: the VM's, and that of the script which runs on the first boot of a disk."""


class Wanted(Enum):
    """What the rows want of a holder of GPUs: of a pod or VM, of a replica, or of all the replicas of a cluster."""

    STARTED = auto()  # anew: whatever ran of it before ends first
    RESTARTED = auto()  # its container again; it counts as running meanwhile, and nothing is reported of it
    STOPPED = auto()
    GONE = auto()  # at once, and nothing is reported of it any more; its volume stays
    DELETED = auto()  # gone, and its volume with it


@dataclass(frozen=True, slots=True)
class Facts:
    """The due items that tell holders of one sort what became of them; None: such holders are not told that."""

    started: str | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """When a container starts and when it is as wanted, in microseconds of the cloud's clock; None: nobody knows."""

    placed_at: int | None = None
    due_at: int | None = None


class Runtime(Protocol):
    """A runtime in one transaction."""

    @property
    def reports_by_itself(self) -> bool:
        """Whether it reports what runs on a node that is back; if it does not, all goes on there as if nothing was."""
        ...

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Learn what is wanted from now on; it is done, and reported, after this transaction."""
        ...

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """What a VM's log says of a boot, as source and line; `script` is its cloudInit where this boot runs it."""
        ...
