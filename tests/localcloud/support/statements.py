"""What a store's transactions ask of SQLite, statement by statement."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from relay_localcloud.kernel.store import Tx


@contextmanager
def statements_of(tx: Tx) -> Iterator[list[str]]:
    """The statements that are run meanwhile, those of triggers left out."""
    run: list[str] = []
    driver = cast("sqlite3.Connection", tx.connection.connection.driver_connection)
    driver.set_trace_callback(lambda said: None if said.startswith("--") else run.append(said))
    yield run
    driver.set_trace_callback(None)
