"""Ended rows are remembered for a while, and then deleted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Select, Table, delete, func, select

from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import DueHandler
from relay_localcloud.kernel.instants import DAY, HOUR, SECOND
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

FORGET: Final = "forget"
"""The kind of the due item for a table with ended rows; a table without any has no item."""

AT_ONCE: Final = 500
"""Rows that are deleted in one transaction, which delays every request."""


@dataclass(frozen=True)
class Remembered:
    """Retention of a table's rows: how long after the instant in the column `ended`; `key` identifies a row.

    `parts` are columns of other tables (`table.column`) that refer to `key`; their rows are deleted with it.
    """

    table: Table
    ended: str
    kept: int = DAY
    parts: tuple[str, ...] = ()
    key: str = "id"

    def one_ended(self, tx: Tx) -> None:
        """Schedule the deletion of a row that has just ended."""
        if not due.is_scheduled(tx.connection, FORGET, self.table.name):
            tx.schedule(tx.now + self.kept, FORGET, self.table.name)

    def forget(self, tx: Tx) -> None:
        """Delete rows whose time is over, the oldest first and a limited number, and schedule the rest."""
        ended, key = self.table.c[self.ended], self.table.c[self.key]
        over: Select[Any] = select(key).where(ended <= tx.now - self.kept).order_by(ended, key).limit(AT_ONCE)
        for part in self.parts:
            table, _, column = part.partition(".")
            tx.connection.execute(delete(metadata.tables[table]).where(metadata.tables[table].c[column].in_(over)))
        deleted = tx.connection.execute(delete(self.table).where(key.in_(over))).rowcount
        first: int | None = tx.connection.execute(select(func.min(ended)).where(ended.is_not(None))).scalar_one()
        if first is not None:
            pause = SECOND if deleted == AT_ONCE else HOUR
            tx.schedule(max(first + self.kept, tx.now + pause), FORGET, self.table.name)


def handlers(every: Iterable[Remembered]) -> Mapping[str, DueHandler]:
    """Handlers that delete the rows of these tables when their time is over."""
    by_table = {each.table.name: each for each in every}
    return {FORGET: lambda tx, item: by_table[item.subject].forget(tx)}
