"""How reservations are compared with what a NodeReservation asks. Pure."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from relay_operator.api.meta import rfc3339
from relay_operator.api.nodereservation import NodeReservationSpec
from relay_operator.engine.fit_schema import moment
from relay_operator.kinds.comparison import fits, in_order
from relay_wire.reservations import Reservation as Reserved

_UNSENT_IS_EMPTY: Final = ("managing_org_ids", "ends_at", "contract_ref", "reason")
"""Fields that a reservation has only if the create sent them; without `startsAt` it begins at once."""


def equal_to(spec: NodeReservationSpec) -> Callable[[Reserved], bool]:
    """Tells whether a row equals all that is sent; most of a long list differ in a field that is cheap to compare."""
    fields, unsent = compared(spec), [name for name in _UNSENT_IS_EMPTY if not getattr(spec, name)]

    def equals(row: Reserved) -> bool:
        return (
            fits(spec.contract_ref, row.contract_ref)
            and fits(spec.reason, row.reason)
            and not any(getattr(row, name) for name in unsent)
            and all(fits(asked, has) for _, asked, has in fields(row))
        )

    return equals


def compared(spec: NodeReservationSpec) -> Callable[[Reserved], Iterator[tuple[str, object, object]]]:
    """Gives (field, asked, has) of rows, each field when it is taken; what is asked is worked out once for all rows."""
    units, managing = in_order(spec.unit_ids), in_order(spec.managing_org_ids) or None
    organizations, allowed = set(spec.allowed_org_ids), in_order(spec.allowed_org_ids)
    starts_at, ends_at = written(spec.starts_at), written(spec.ends_at)

    def fields(row: Reserved) -> Iterator[tuple[str, object, object]]:
        yield "unitIds", units, in_order(row.unit_ids)
        has = set(row.allowed_org_ids)
        as_asked = organizations <= has and len(has - organizations) <= 1  # the cloud adds its own organization
        yield "allowedOrganizationIds", allowed, allowed if as_asked else in_order(has)
        yield "managingOrganizationIds", managing, in_order(row.managing_org_ids)
        yield "startsAt", starts_at, written(moment(row.starts_at))
        yield "endsAt", ends_at, written(moment(row.ends_at))
        yield "contractRef", spec.contract_ref, row.contract_ref
        yield "reason", spec.reason, row.reason

    return fields


def written(at: datetime | None) -> str | None:
    """A moment to the second."""
    return None if at is None else rfc3339(at)
