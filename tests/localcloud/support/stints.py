"""Stints of use, as a store without a server counts them; and how many steps its database takes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from sqlalchemy import insert

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Store
from relay_localcloud.kernel.tables import organizations
from relay_localcloud.money import billing
from relay_localcloud.money.billing import Billed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterator

    from relay_localcloud.kernel.store import Tx

START = 1_893_456_000 * SECOND  # 2030-01-01T00:00:00Z
Stints = list[tuple[int, int, int]]
"""When each began after `START`, how long it ran, and its rate."""


@contextmanager
def played(ran: Stints, until: int) -> Iterator[Tx]:
    """A transaction at that time, when all that was to begin and to end by then has; resources are numbered."""
    begins = [(START + start, False, number) for number, (start, _, _) in enumerate(ran)]
    ends = [(START + start + length, True, number) for number, (start, length, _) in enumerate(ran)]
    store = Store.ephemeral()
    with store.transaction(at=START) as tx:
        tx.connection.execute(insert(organizations).values(id="org", name="org", created_at=START))
    for instant, is_over, number in sorted([*begins, *ends]):
        if instant <= until:
            with store.transaction(at=instant) as tx:
                if is_over:
                    billing.stop_billing(tx, "org", str(number))
                else:
                    name, rate = str(number), ran[number][2]
                    billing.start_billing(tx, Billed("org", name, name, "pod", "pod", None, rate, None))
    with store.transaction(at=until) as tx:
        yield tx
    store.close()


def steps(tx: Tx, read: Callable[[], object]) -> int:
    """How many instructions of its own SQLite runs for it, in tens."""
    read()  # what is compiled once is compiled
    raw = cast("sqlite3.Connection", tx.connection.connection.driver_connection)
    counted: list[None] = []
    raw.set_progress_handler(lambda: counted.append(None), 10)
    read()
    raw.set_progress_handler(None, 0)
    return len(counted)
