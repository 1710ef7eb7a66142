"""Reservations of a node's GPU units (section 2, "Node reservation"); the answer and all bounds are assumed."""

from typing import Annotated

from pydantic import Field

from relay_wire.base import Lenient, ListOf, Page, Printable, Received, ResourceId, Sent

NamedId = Annotated[str, Field(max_length=200)]
"""The id of a unit or of an organization."""

Note = Annotated[str, Field(max_length=1000), Printable]


class ReservationCreate(Sent):
    """Node reservation request; `startsAt` and `endsAt` are RFC 3339 in any zone."""

    unit_ids: Annotated[list[NamedId], Field(min_length=1, max_length=16384)]
    allowed_org_ids: Annotated[list[NamedId], Field(max_length=1000)]
    managing_org_ids: Annotated[list[NamedId], Field(max_length=1000)] | None = None
    starts_at: Annotated[str, Field(max_length=64)] | None = None  # absent: at once
    ends_at: Annotated[str, Field(max_length=64)] | None = None  # absent: open-ended
    contract_ref: Note | None = None
    reason: Note | None = None


class Reservation(Received):
    """A reservation: `status` is scheduled, active, released (its units are lent to spot) or ended."""

    id: ResourceId
    node_id: Lenient[str] = None
    unit_ids: ListOf[str] = Field(default_factory=list)
    allowed_org_ids: ListOf[str] = Field(default_factory=list)
    managing_org_ids: ListOf[str] = Field(default_factory=list)
    starts_at: Lenient[str] = None
    ends_at: Lenient[str] = None
    status: Lenient[str] = None
    contract_ref: Lenient[str] = None
    reason: Lenient[str] = None
    created_at: Lenient[str] = None
    spot_workload_ids: ListOf[str] = Field(default_factory=list)  # workloads that the reservation's owner may terminate


ReservationList = Page[Reservation]
