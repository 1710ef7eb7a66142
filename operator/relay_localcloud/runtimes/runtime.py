"""What makes containers of what the rows want, as a transaction has it: `tx.runtime`.

The rows are the truth of what is wanted. Whoever changes them tells the runtime so in the same transaction, and waits
for nothing. What a runtime sees it reports in later transactions; the tables of states alone say what that means.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum, StrEnum, auto
from ssl import SSLContext
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from relay_kube.execution import Execution
    from relay_kube.forwarding import Forwarded

BOOT: Final = "boot"
CLOUD_INIT: Final = "cloud-init"
"""Whose line of a VM's log it is: the VM's, and that of the script which runs on the first boot of a disk."""


INSTANCE: Final = "instance"
"""The fact of a state that names whose its containers are; a simulated cloud's state has none."""


class Unusable(Exception):
    """What a runtime was given cannot be used; the message says what is wrong and what to do."""


class Wanted(Enum):
    """What the rows want of a holder of GPUs: of a pod or VM, of a replica, or of all the replicas of a cluster."""

    STARTED = auto()  # anew: whatever ran of it before ends first
    RESTARTED = auto()  # its container again; it counts as running meanwhile, and nothing is reported of it
    STOPPED = auto()
    GONE = auto()  # at once, and nothing is reported of it any more; its volume stays
    DELETED = auto()  # gone, and its volume with it


class Noun(StrEnum):
    """What a runtime may be asked to make."""

    POD = "pods"
    VM = "VMs"
    CLUSTER = "clusters"
    DEPLOYMENT = "serving deployments"
    SNAPSHOT = "snapshots"
    TRANSFER = "transfers"
    PRIVILEGE = "privileged containers"
    KERNEL_MODULE = "kernel modules"


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


@dataclass(frozen=True, slots=True)
class Way:
    """Where a workload answers; `name` is what people call that, and `uid` whose address it is now.

    With `proxied`, a server passes requests on that is asked as somebody: by these headers, over this TLS.
    """

    url: str
    name: str
    uid: str = ""
    proxied: "Proxied | None" = None


@dataclass(frozen=True, slots=True)
class Proxied:
    """As whom an API server is asked to pass requests on."""

    headers: Callable[[], Mapping[str, str]] = field(repr=False)
    tls: SSLContext = field(repr=False)


class Containers(Protocol):
    """What a runtime that runs containers knows of them, outside of transactions."""

    moved: Callable[[str], None]
    """Called with a workload's id when its container came, changed or went; the gateway sets it."""

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """Where a workload answers at a port of its container; None while that does not run.

        Of one with replicas it is the healthy one whose turn it is; with `uid` the very container of this `Way.uid`.
        """
        ...

    def log(self, organization_id: str, workload_id: str, *, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """What its container prints, in pieces: lines with their instants before them; with `follow` until it ends.

        Nothing while there is no container. ApiError 503 if it cannot be asked.
        """
        ...

    def execute(
        self, organization_id: str, workload_id: str, command: Sequence[str], *, terminal: bool
    ) -> AbstractAsyncContextManager["Execution"]:
        """Run a command in its container, with a terminal or without one. Raises KubeError."""
        ...

    def forward(self, organization_id: str, workload_id: str, port: int) -> AbstractAsyncContextManager["Forwarded"]:
        """Connect to a port at which its container listens. Raises KubeError."""
        ...


class Runtime(Protocol):
    """A runtime in one transaction."""

    @property
    def reports_by_itself(self) -> bool:
        """Whether it reports what runs on a node that is back; if it does not, all goes on there as if nothing was."""
        ...

    def lacks(self, noun: Noun) -> str | None:
        """Why these cannot be made with it, and what to use, in a sentence; None: they can."""
        ...

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Learn what is wanted from now on; it is done, and reported, after this transaction."""
        ...

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """What a VM's log says of a boot, as source and line; `script` is its cloudInit where this boot runs it."""
        ...
