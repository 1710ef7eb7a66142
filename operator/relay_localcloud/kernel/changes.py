"""Hearing of rows that changed, whoever changed them, so that what is kept of them in memory can be forgotten."""

import sqlite3
from collections.abc import Callable, Sequence

from sqlalchemy import Table


def watch(raw: sqlite3.Connection, table: Table, key: str, of: Sequence[str], changed: Callable[[str], None]) -> None:
    """Call `changed` with a row's `key` when the row goes or comes, or one of the columns `of` is written.

    It is called inside the transaction, also in one that rolls back: forget, and read anew later. Once for each table.
    """
    function = f"{table.name}_changed"
    raw.create_function(function, 1, changed)
    for event, version in (("INSERT", "NEW"), ("DELETE", "OLD"), (f"UPDATE OF {', '.join(of)}", "OLD")):
        raw.execute(
            f"CREATE TEMP TRIGGER {function}_{event[:6]} AFTER {event} ON main.{table.name} "
            f"BEGIN SELECT {function}({version}.{key}); END"
        )
