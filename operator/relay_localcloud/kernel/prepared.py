"""Statements that are compiled once, at their first run; for statements that run on every request or transition.

Building a Core statement and looking it up in the cache costs several times as much as SQLite needs to run it.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import cast

from sqlalchemy import ClauseElement, Connection, Table, bindparam
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite import insert

_DIALECT = sqlite.dialect(paramstyle="named")


class Prepared:
    """A Core statement as SQL; its `bindparam`s, or an insert's columns, are the parameters of `run`.

    Rows are as SQLite returns them: plain tuples in the order of the statement's columns, booleans as 0 and 1.
    """

    def __init__(self, statement: ClauseElement) -> None:
        self._statement = statement

    @cached_property
    def _compiled(self) -> tuple[str, dict[str, object]]:
        compiled = self._statement.compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True})
        del self._statement  # dozens of objects, which would keep memory from the system
        return str(compiled), {name: value for name, value in compiled.params.items() if value is not None}

    def run(self, connection: Connection, **parameters: object) -> sqlite3.Cursor:
        """Execute it in the connection's open transaction."""
        sql, fixed = self._compiled
        return _driver(connection).execute(sql, fixed | parameters)

    def run_each(self, connection: Connection, rows: Iterable[Mapping[str, object]]) -> None:
        """Execute it once with each row of parameters."""
        sql, fixed = self._compiled
        _driver(connection).executemany(sql, ({**fixed, **parameters} for parameters in rows))


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.driver_connection)


def adding(table: Table, *keys: str) -> Prepared:
    """Adds to the counts of the row with these keys, and returns the new counts; parameters: `new_...`."""
    counts = [column for column in table.c if column.name not in keys]
    row = insert(table).values({column.name: bindparam(f"new_{column.name}") for column in table.c})
    more = {column.name: column + row.excluded[column.name] for column in counts}
    return Prepared(row.on_conflict_do_update(index_elements=keys, set_=more).returning(*counts))
