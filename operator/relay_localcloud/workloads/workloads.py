"""Stored pods and VMs: one table, one record."""

import json
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from sqlalchemy import Index, UniqueConstraint, and_, case, text

from relay_localcloud.http.errors import not_found
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.billing import Billed
from relay_wire.pods import PodStatus
from relay_wire.vms import VmStatus

POD: Final = "pod"
VM: Final = "vm"

READABLE_AFTER_TERMINATION: Final = DAY
"""How long a terminated workload can still be read (assumed)."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod or a VM."""

    sequence: int
    id: str
    kind: str
    organization_id: str
    name: str
    status: PodStatus
    status_reason: str | None
    out_of_funds_at: int | None  # when the balance stopped it; None: it did not
    changed_at: int
    placed_at: int | None  # while deploying: the instant at which its container starts
    due_at: int | None  # when its timer ends; None: no timer is set
    created_at: int
    terminated_at: int | None
    node_id: str | None  # the permanent place of its volume; None: a CPU VM
    gpu_model_id: str | None
    gpu_count: int
    price_per_hour_cents: int  # of all of it, locked at the create
    image: str | None
    public: bool
    label: str  # of its endpoint's host
    http_port: int
    volume_gb: int | None
    disk_size_gb: int | None
    resource_size: str | None
    tier: str
    capability_tier: str
    compute_class: str
    request: str  # the body of its create, as JSON

    @property
    def shown_status(self) -> str:
        """The word for its status; a VM's `deploying` is called `provisioning`."""
        starts = self.kind == VM and self.status is PodStatus.DEPLOYING
        return VmStatus.PROVISIONING.value if starts else self.status.value

    @property
    def billed(self) -> Billed:
        """What its running stints are billed for, to whom, and at which rate."""
        return Billed(
            organization_id=self.organization_id,
            holder_id=self.id,
            resource_id=self.id,
            kind=self.kind,
            name=self.name,
            gpu_model_id=self.gpu_model_id,
            rate_cents=self.price_per_hour_cents,
            node_id=self.node_id,
        )

    @property
    def named_its_node(self) -> bool:
        """Whether its create named the node that it is on, as reserved units require (section 2, `nodeId`)."""
        return self.kind == VM and json.loads(self.request).get("nodeId") is not None

    @property
    def event_data(self) -> dict[str, JsonValue]:
        """What identifies it in `data` of its events; a pod also has the fields of a pod."""
        named: dict[str, JsonValue] = {"vmId": self.id, "organizationId": self.organization_id, "name": self.name}
        return {**named, "podId": self.id} if self.kind == POD else named


_LIVE: Final = text("terminated_at IS NULL")
WORKLOADS: Final = Rows(
    Workload,
    "workloads",
    UniqueConstraint("label"),
    Index("live_names", "organization_id", "kind", "name", unique=True, sqlite_where=_LIVE),
    Index("workloads_on_node", "node_id", sqlite_where=_LIVE),
    Index("running_workloads", "organization_id", sqlite_where=text("status = 'running'")),
    Index("live_workloads", "organization_id", "sequence", sqlite_where=_LIVE),
    Index(
        "workloads_out_of_funds",
        "organization_id",
        sqlite_where=text("out_of_funds_at IS NOT NULL AND terminated_at IS NULL"),
    ),
    Index("ended_workloads", "terminated_at", "id", sqlite_where=text("terminated_at IS NOT NULL")),
)
workloads: Final = WORKLOADS.table
ENDED: Final = Remembered(
    workloads, "terminated_at", READABLE_AFTER_TERMINATION, ("attached_ssh_keys.workload_id", "transfers.workload_id")
)
RUNNING: Final = workloads.c.status == text("'running'")
"""In the form that the index of running workloads has."""
SHOWN_STATUS: Final = case(
    (and_(workloads.c.kind == VM, workloads.c.status == PodStatus.DEPLOYING), VmStatus.PROVISIONING.value),
    else_=workloads.c.status,
)
"""`Workload.shown_status` of a row."""
OUT_OF_FUNDS: Final = workloads.c.out_of_funds_at.is_not(None)
"""Stopped by the balance."""


def kept_gb(kind: str, volume_gb: int | None, disk_size_gb: int | None) -> int:
    """The size of what a workload keeps while it is stopped: a pod's volume, a VM's disk."""
    return (volume_gb if kind == POD else disk_size_gb) or 0


def find(tx: Tx, workload_id: str) -> Workload | None:
    """A workload by its id; a terminated one only for 24 hours."""
    workload = WORKLOADS.find(tx, id=workload_id)
    gone = None if workload is None else workload.terminated_at
    return None if gone is not None and tx.now - gone >= READABLE_AFTER_TERMINATION else workload


def visible(tx: Tx, caller: Principal, workload_id: str) -> Workload:
    """A workload that the caller may use; ApiError 404 if the caller's organization does not have it, 403 by role."""
    workload = find(tx, workload_id)
    if workload is None:
        raise not_found("VM or pod", workload_id)
    caller.admit(workload.organization_id, "VM or pod", workload_id)
    return workload


def on_node(tx: Tx, node_id: str) -> list[Workload]:
    """All live workloads whose home is the node, the oldest first."""
    return WORKLOADS.all(tx, node_id=node_id, terminated_at=None)
