"""The interface between the rows and what runs for them; a transaction has its runtime as `tx.runtime`.

The rows state what is wanted. A transaction that changes them tells the runtime so, and does not wait for it. A runtime
reports what it observes in later transactions; only the state tables decide what that means.
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
"""The sources of lines in a VM's log: the VM itself, and the script that runs on the first boot of a disk."""


INSTANCE: Final = "instance"
"""The key, in a state's metadata, of the id that marks the cloud's containers; a simulated cloud's state has none."""


class Unusable(Exception):
    """A runtime's arguments or its cluster cannot be used; the message says what is wrong and what to do."""


class Wanted(Enum):
    """What the rows want of a holder of GPUs: a pod or VM, a replica, or all replicas of a cluster together."""

    STARTED = auto()  # a new start: whatever ran of it before ends first
    RESTARTED = auto()  # its container starts again; it counts as running meanwhile, and no start is reported
    STOPPED = auto()
    GONE = auto()  # ended at once, without any further report; its volume stays
    DELETED = auto()  # gone, and its volume deleted


class Noun(StrEnum):
    """What a runtime may or may not support, as users call it."""

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
    """The kinds of due items that report a start or stop to one sort of holder; None if it gets no such report."""

    started: str | None = None
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """When a container is placed and when it is as wanted, in microseconds of the cloud's clock; None if unknown."""

    placed_at: int | None = None
    due_at: int | None = None


@dataclass(frozen=True, slots=True)
class Way:
    """The address of a workload; `name` is what error messages call it, `uid` identifies the container there now.

    With `proxied`, an API server passes requests on, and needs those credentials.
    """

    url: str
    name: str
    uid: str = ""
    proxied: "Proxied | None" = None


@dataclass(frozen=True, slots=True)
class Proxied:
    """The credentials for an API server that passes requests on: headers, computed per request, and TLS."""

    headers: Callable[[], Mapping[str, str]] = field(repr=False)
    tls: SSLContext = field(repr=False)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A container that bears the mark of this cloud: of the pod or replica `id` of a workload, at one of its starts.

    `cluster` and `namespace` are where it is; `created_at` is by the cluster's clock.
    """

    id: str
    workload_id: str
    cluster: str
    namespace: str
    start: int
    created_at: int


class Containers(Protocol):
    """Access to the containers of a runtime that runs some, outside of transactions."""

    moved: Callable[[str], None]
    """Called with a workload's id when its container appeared, changed or disappeared; the gateway sets it."""

    def way(self, organization_id: str, workload_id: str, port: int, uid: str | None = None) -> Way | None:
        """The address of a workload at a port of its container; None while the container does not run.

        For a workload with replicas, the next healthy one in turn; with `uid`, only the container with that `Way.uid`.
        """
        ...

    def log(self, organization_id: str, workload_id: str, *, tail: int | None, follow: bool) -> AsyncIterator[bytes]:
        """Yields the container's output in pieces, each line after its timestamp; with `follow` until the end.

        `tail` is the number of last lines; None for all. Yields nothing without a container. Raises ApiError 503 if the
        log cannot be read.
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
        """Whether it reports what runs on a node that returned; if not, everything there goes on as before."""
        ...

    def lacks(self, noun: Noun) -> str | None:
        """Why the runtime does not support the noun and what to use instead, in a sentence; None if it does."""
        ...

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Record what is wanted from now on; the runtime carries it out, and reports, after this transaction."""
        ...

    def lingers(self, holder_id: str) -> bool:
        """Whether what runs of a holder that ends for good may still use its GPUs; it then releases them once gone."""
        ...

    def holds_changed(self) -> None:
        """Note that an owner held or released a node; the runtime carries that out after this transaction."""
        ...

    def orphans(self) -> Sequence[Labelled]:
        """The containers of this cloud of which the state has no record, as after a restored backup."""
        ...

    def end_orphan(self, holder_id: str) -> bool:
        """End such a container after this transaction, with its volume; False if there is none."""
        ...

    def take_snapshot(self, due: str, snapshot_id: str, vm_id: str) -> None:
        """Have a snapshot of a VM's disk taken after this transaction; `due` is the kind of a due item about it.

        ApiError 409 if the VM has no disk.
        """
        ...

    def drop_snapshot(self, due: str, snapshot_id: str) -> None:
        """Have a snapshot deleted, or not taken, after this transaction."""
        ...

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """The (source, line) pairs that a boot adds to a VM's log; `script` is its cloudInit if this boot runs it."""
        ...
