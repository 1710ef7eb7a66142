"""Rows of files, and the file objects that they are shown as (assumed: OpenAI's)."""

from sqlalchemy import RowMapping, insert, select, update

from relay_localcloud.batches.tables import files
from relay_localcloud.http.errors import not_found
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Tx


def keep(tx: Tx, organization_id: str, file_id: str, filename: str, purpose: str, size: int) -> RowMapping:
    """Make a file whose content is on the disk, and answer its row."""
    values = {
        "id": file_id,
        "organization_id": organization_id,
        "filename": filename,
        "purpose": purpose,
        "bytes": size,
        "created_at": tx.now,
    }
    tx.connection.execute(insert(files), values)
    return find(tx, organization_id, file_id)


def find(tx: Tx, organization_id: str, file_id: str) -> RowMapping:
    """A file's row; ApiError 404 where this organization has none of that id."""
    query = select(files).where(files.c.id == file_id, files.c.organization_id == organization_id)
    row = tx.connection.execute(query.where(files.c.deleted_at.is_(None))).mappings().first()
    if row is None:
        raise not_found("file", file_id)
    return row


def delete(tx: Tx, file_id: str) -> None:
    """Delete a file; its content is the caller's to remove once this is on the disk."""
    tx.connection.execute(update(files).where(files.c.id == file_id).values(deleted_at=tx.now))


def ids_of_all(tx: Tx) -> set[str]:
    """The ids of all files of all organizations."""
    return set(tx.connection.execute(select(files.c.id).where(files.c.deleted_at.is_(None))).scalars())


def shown(row: RowMapping) -> dict[str, object]:
    """The file object."""
    return {
        "id": row["id"],
        "object": "file",
        "bytes": row["bytes"],
        "created_at": row["created_at"] // SECOND,
        "filename": row["filename"],
        "purpose": row["purpose"],
        "status": "processed",
    }
