"""Rows that an organization owns, in tables with `id`, `organization_id` and mostly `name`."""

from sqlalchemy import RowMapping, Table, delete, select

from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.tables import FIRST_COME


def require_free_name(tx: Tx, table: Table, organization_id: str, name: str, noun: str) -> None:
    """Refuses with 409 a name that a row of the organization has; `noun` comes with its article."""
    clash = select(table.c.id).where(table.c.organization_id == organization_id, table.c.name == name)
    if tx.connection.execute(clash).first() is not None:
        raise ApiError(409, f"There is {noun} {name!r} already.")


def every(tx: Tx, table: Table, organization_id: str) -> list[RowMapping]:
    """All rows of the organization, the oldest first."""
    query = select(table).where(table.c.organization_id == organization_id)
    return list(tx.connection.execute(query.order_by(FIRST_COME)).mappings())


def find(tx: Tx, table: Table, organization_id: str, row_id: str) -> RowMapping | None:
    """The organization's row of this id; None where it has none."""
    query = select(table).where(table.c.id == row_id, table.c.organization_id == organization_id)
    return tx.connection.execute(query).mappings().first()


def get(tx: Tx, table: Table, organization_id: str, row_id: str, noun: str) -> RowMapping:
    """The organization's row of this id; ApiError 404 where it has none."""
    row = find(tx, table, organization_id, row_id)
    if row is None:
        raise not_found(noun, row_id)
    return row


def remove(tx: Tx, table: Table, organization_id: str, row_id: str, noun: str) -> None:
    """Delete the organization's row of this id; ApiError 404 where it has none."""
    removal = delete(table).where(table.c.id == row_id, table.c.organization_id == organization_id)
    if tx.connection.execute(removal).rowcount == 0:
        raise not_found(noun, row_id)
