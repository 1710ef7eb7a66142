"""Pods and VMs as they are kept: one table, one record."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue
from sqlalchemy import Connection, Index, UniqueConstraint, bindparam, insert, select, text, update

from relay_localcloud.http.errors import not_found
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.billing import Billed
from relay_wire.pods import PodStatus

POD: Final = "pod"
VM: Final = "vm"

READABLE_AFTER_TERMINATION: Final = DAY
"""How long a terminated workload is still answered (assumed)."""


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
    placed_at: int | None  # while deploying: when its container starts
    due_at: int | None  # when its timer ends; None: none is set
    created_at: int
    terminated_at: int | None
    node_id: str | None  # where its volume is, for good; None: a CPU VM
    gpu_model_id: str | None
    gpu_count: int
    price_per_hour_cents: int  # of all of it, locked at create
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
    def billed(self) -> Billed:
        """Whom its running stints are billed to, and at which rate."""
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
        """Whether its create asked for the node it is on, which reserved units take (section 2, `nodeId`)."""
        return self.kind == VM and json.loads(self.request).get("nodeId") is not None

    @property
    def event_data(self) -> dict[str, JsonValue]:
        """What names it in `data` of its events; pods are named as pods as well."""
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
)
workloads: Final = WORKLOADS.table
_IS_LIVE: Final = workloads.c.terminated_at.is_(None)

_COLUMNS: Final = tuple(column.name for column in workloads.columns)
_INSERT: Final = Prepared(insert(workloads))
_FIND: Final = Prepared(select(workloads).where(workloads.c.id == bindparam("wanted")))
_MOVED: Final = ("status", "status_reason", "out_of_funds_at", "changed_at", "placed_at", "due_at", "terminated_at")
_MOVE: Final = Prepared(
    update(workloads)
    .where(workloads.c.id == bindparam("wanted"))
    .values(**{column: bindparam(column) for column in _MOVED})
)
_LIVE_NAME: Final = Prepared(
    select(workloads.c.id).where(
        workloads.c.organization_id == bindparam("organization"),
        workloads.c.kind == bindparam("of_kind"),
        workloads.c.name == bindparam("wanted"),
        workloads.c.terminated_at.is_(None),
    )
)


def insert_workload(tx: Tx, columns: Mapping[str, object]) -> Workload:
    """Keep a workload that was just admitted; absent columns are null."""
    values = dict.fromkeys(_COLUMNS) | dict(columns)
    values["sequence"] = _INSERT.run(tx.connection, **values).lastrowid
    return WORKLOADS.of(values)


def move(tx: Tx, workload: Workload) -> None:
    """Keep what a move changed: status, reason and instants."""
    _MOVE.run(tx.connection, wanted=workload.id, **{column: getattr(workload, column) for column in _MOVED})


def change(tx: Tx, workload_id: str, **values: object) -> None:
    """Change fields of a workload."""
    WORKLOADS.change(tx, workload_id, **values)


def find(tx: Tx, workload_id: str) -> Workload | None:
    """A workload by its id; a terminated one for 24 hours only."""
    row = _FIND.run(tx.connection, wanted=workload_id).fetchone()
    if row is None:
        return None
    workload = WORKLOADS.of(dict(zip(_COLUMNS, row, strict=True)))
    gone = workload.terminated_at
    return None if gone is not None and tx.now - gone >= READABLE_AFTER_TERMINATION else workload


def visible(tx: Tx, caller: Principal, workload_id: str) -> Workload:
    """A workload that the caller may act on; ApiError 404 where there is none in its organization, 403 by role."""
    workload = find(tx, workload_id)
    if workload is None:
        raise not_found("VM or pod", workload_id)
    caller.admit(workload.organization_id, "VM or pod", workload_id)
    return workload


def name_is_taken(connection: Connection, organization_id: str, kind: str, name: str) -> bool:
    """Whether a live workload of the kind has the name."""
    return _LIVE_NAME.run(connection, organization=organization_id, of_kind=kind, wanted=name).fetchone() is not None


def on_node(connection: Connection, node_id: str) -> list[Workload]:
    """Every live workload whose home is the node, the oldest first."""
    return WORKLOADS.select(connection, workloads.c.node_id == node_id, _IS_LIVE)


def running_of(connection: Connection, organization_id: str) -> list[Workload]:
    """Every running workload of an organization, the oldest first."""
    w = workloads.c
    return WORKLOADS.select(connection, w.organization_id == organization_id, w.status == text("'running'"))


def out_of_funds(connection: Connection, organization_id: str) -> list[Workload]:
    """Every live workload of an organization that the balance stopped."""
    w = workloads.c
    return WORKLOADS.select(connection, w.organization_id == organization_id, _IS_LIVE, w.out_of_funds_at.is_not(None))


def live_page(connection: Connection, organization_id: str, before: int | None, count: int) -> list[Workload]:
    """Live workloads of an organization, newest first, those made before the sequence number `before`."""
    w = workloads.c
    earlier = () if before is None else (w.sequence < before,)
    return WORKLOADS.select(connection, w.organization_id == organization_id, _IS_LIVE, *earlier, newest=count)


def kept_request(body: Mapping[str, JsonValue]) -> str:
    """A create body as the row keeps it."""
    return json.dumps(body, separators=(",", ":"))
