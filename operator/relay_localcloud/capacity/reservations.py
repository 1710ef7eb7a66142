"""Reservations of GPU units, as they are kept (section 2, "Node reservation"); `reserved_units.py` has what they do."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    ForeignKey,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

PLATFORM_OPERATIONS: Final = "org_platform_ops"
"""The platform ops org, which every reservation allows (section 2); nobody has a key of it."""


class ReservationStatus(StrEnum):
    """Where a reservation is; section 2 shows no words, so all are assumed."""

    SCHEDULED = "scheduled"
    ACTIVE = "active"
    RELEASED = "released"
    ENDED = "ended"


reservations = Table(
    "reservations",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("node_id", ForeignKey("nodes.id"), nullable=False, index=True),
    Column("units", Text, nullable=False),  # a JSON array of indexes
    Column("allowed_org_ids", Text, nullable=False),  # a JSON array, as the next
    Column("managing_org_ids", Text, nullable=False),
    Column("starts_at", BigInteger, nullable=False),
    Column("ends_at", BigInteger),  # null: open-ended
    Column("status", String, nullable=False),
    Column("contract_ref", Text),
    Column("reason", Text),
    Column("created_at", BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation, as its row has it."""

    sequence: int
    id: str
    node_id: str
    units: tuple[int, ...]
    allowed_org_ids: tuple[str, ...]
    managing_org_ids: tuple[str, ...]
    starts_at: int
    ends_at: int | None
    status: ReservationStatus
    contract_ref: str | None
    reason: str | None
    created_at: int


def insert_reservation(tx: Tx, columns: Mapping[str, object]) -> Reservation:
    """Keep a reservation."""
    return _reservation(tx.connection.execute(insert(reservations).returning(reservations), columns).mappings().one())


def set_status(tx: Tx, reservation_id: str, status: ReservationStatus) -> None:
    """Keep where a reservation is."""
    tx.connection.execute(update(reservations).where(reservations.c.id == reservation_id).values(status=status.value))


def forget(tx: Tx, reservation_id: str) -> None:
    """Delete a reservation whose units were given back."""
    tx.connection.execute(delete(reservations).where(reservations.c.id == reservation_id))


def find(connection: Connection, reservation_id: str) -> Reservation | None:
    """A reservation by its id."""
    row = connection.execute(select(reservations).where(reservations.c.id == reservation_id)).mappings().first()
    return None if row is None else _reservation(row)


def of_node(connection: Connection, node_id: str) -> list[Reservation]:
    """Every reservation of a node, the oldest first."""
    query = select(reservations).where(reservations.c.node_id == node_id).order_by(reservations.c.sequence)
    return [_reservation(row) for row in connection.execute(query).mappings()]


def _reservation(row: RowMapping) -> Reservation:
    arrays = {name: tuple(json.loads(row[name])) for name in ("units", "allowed_org_ids", "managing_org_ids")}
    return Reservation(**{**row, **arrays, "status": ReservationStatus(row["status"])})
