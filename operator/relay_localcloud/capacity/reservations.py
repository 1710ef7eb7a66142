"""Reservations of GPU units, as they are kept (section 2, "Node reservation"); `reserved_units.py` has what they do."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import ForeignKeyConstraint, Index

from relay_localcloud.kernel.rows import Rows

PLATFORM_OPERATIONS: Final = "org_platform_ops"
"""The platform ops org, which every reservation allows (section 2); nobody has a key of it."""


class ReservationStatus(StrEnum):
    """Where a reservation is; section 2 shows no words, so all are assumed."""

    SCHEDULED = "scheduled"
    ACTIVE = "active"
    RELEASED = "released"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A reservation; `units` are indexes of the node."""

    sequence: int
    id: str
    node_id: str
    units: tuple[int, ...]
    allowed_org_ids: tuple[str, ...]
    managing_org_ids: tuple[str, ...]
    starts_at: int
    ends_at: int | None  # None: open-ended
    status: ReservationStatus
    contract_ref: str | None
    reason: str | None
    created_at: int


RESERVATIONS: Final = Rows(
    Reservation,
    "reservations",
    ForeignKeyConstraint(["node_id"], ["nodes.id"]),
    Index("ix_reservations_node_id", "node_id"),
)
reservations: Final = RESERVATIONS.table
