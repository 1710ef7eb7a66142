"""Pods and VMs as they are kept: one table, one record."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import JsonValue
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    bindparam,
    insert,
    select,
    text,
    update,
)

from relay_localcloud.http.errors import not_found
from relay_localcloud.http.principal import Principal
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.billing import Billed
from relay_wire.pods import PodStatus

POD: Final = "pod"
VM: Final = "vm"

READABLE_AFTER_TERMINATION: Final = DAY
"""How long a terminated workload is still answered (assumed)."""

workloads = Table(
    "workloads",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("kind", String, nullable=False),
    Column("organization_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("status", String, nullable=False),
    Column("status_reason", Text),
    Column("out_of_funds_at", BigInteger),  # when the balance stopped it; null: it did not
    Column("changed_at", BigInteger, nullable=False),
    Column("placed_at", BigInteger),  # while deploying: when its container starts
    Column("due_at", BigInteger),  # when its timer ends; null: none is set
    Column("created_at", BigInteger, nullable=False),
    Column("terminated_at", BigInteger),
    Column("node_id", String),  # where its volume is, for good; null: a CPU VM
    Column("gpu_model_id", String),
    Column("gpu_count", Integer, nullable=False),
    Column("price_per_hour_cents", BigInteger, nullable=False),  # of all of it, locked at create
    Column("image", String),
    Column("public", Boolean, nullable=False),
    Column("label", String, nullable=False, unique=True),  # of its endpoint's host
    Column("http_port", Integer, nullable=False),
    Column("volume_gb", Integer),
    Column("disk_size_gb", Integer),
    Column("resource_size", String),
    Column("tier", String, nullable=False),
    Column("capability_tier", String, nullable=False),
    Column("compute_class", String, nullable=False),
    Column("request", Text, nullable=False),  # the body of its create, as JSON
    Index("live_names", "organization_id", "kind", "name", unique=True, sqlite_where=text("terminated_at IS NULL")),
    Index("workloads_on_node", "node_id", sqlite_where=text("terminated_at IS NULL")),
    Index("running_workloads", "organization_id", sqlite_where=text("status = 'running'")),
    Index("live_workloads", "organization_id", "sequence", sqlite_where=text("terminated_at IS NULL")),
)


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod or a VM, as its row has it."""

    sequence: int
    id: str
    kind: str
    organization_id: str
    name: str
    status: PodStatus
    status_reason: str | None
    out_of_funds_at: int | None
    changed_at: int
    placed_at: int | None
    due_at: int | None
    created_at: int
    terminated_at: int | None
    node_id: str | None
    gpu_model_id: str | None
    gpu_count: int
    price_per_hour_cents: int
    image: str | None
    public: bool
    label: str
    http_port: int
    volume_gb: int | None
    disk_size_gb: int | None
    resource_size: str | None
    tier: str
    capability_tier: str
    compute_class: str
    request: str

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
    return _workload(values)


def move(tx: Tx, workload: Workload) -> None:
    """Keep what a move changed: status, reason and instants."""
    _MOVE.run(tx.connection, wanted=workload.id, **{column: getattr(workload, column) for column in _MOVED})


def change(tx: Tx, workload_id: str, **columns: object) -> None:
    """Change columns of a workload."""
    tx.connection.execute(update(workloads).where(workloads.c.id == workload_id).values(**columns))


def find(tx: Tx, workload_id: str) -> Workload | None:
    """A workload by its id; a terminated one for 24 hours only."""
    row = _FIND.run(tx.connection, wanted=workload_id).fetchone()
    if row is None:
        return None
    workload = _workload(dict(zip(_COLUMNS, row, strict=True)))
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
    w = workloads.c
    query = select(workloads).where(w.node_id == node_id, w.terminated_at.is_(None)).order_by(w.sequence)
    return _all(connection.execute(query).mappings().all())


def running_of(connection: Connection, organization_id: str) -> list[Workload]:
    """Every running workload of an organization, the oldest first."""
    w = workloads.c
    query = select(workloads).where(w.organization_id == organization_id, w.status == text("'running'"))
    return _all(connection.execute(query.order_by(w.sequence)).mappings().all())


def out_of_funds(connection: Connection, organization_id: str) -> list[Workload]:
    """Every live workload of an organization that the balance stopped."""
    w = workloads.c
    mine = (w.organization_id == organization_id, w.terminated_at.is_(None), w.out_of_funds_at.is_not(None))
    return _all(connection.execute(select(workloads).where(*mine)).mappings().all())


def live_page(connection: Connection, organization_id: str, before: int | None, count: int) -> list[Workload]:
    """Live workloads of an organization, newest first, those made before the sequence number `before`."""
    w = workloads.c
    query = select(workloads).where(w.organization_id == organization_id, w.terminated_at.is_(None))
    if before is not None:
        query = query.where(w.sequence < before)
    return _all(connection.execute(query.order_by(w.sequence.desc()).limit(count)).mappings().all())


def kept_request(body: Mapping[str, JsonValue]) -> str:
    """A create body as the row keeps it."""
    return json.dumps(body, separators=(",", ":"))


def _all(rows: Sequence[RowMapping]) -> list[Workload]:
    return [_workload({name: row[name] for name in _COLUMNS}) for row in rows]


def _workload(row: Mapping[str, Any]) -> Workload:
    return Workload(**{**row, "status": PodStatus(row["status"]), "public": bool(row["public"])})
