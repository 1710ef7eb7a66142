"""Totals of what each organization has, kept by triggers, whichever code changes the rows.

A total is exact inside the transaction that changes it, and is rolled back with it; reading a total reads none of the
rows that it counts. Totals are in memory, and are computed when a state is opened.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, text

from relay_localcloud.kernel.prepared import Prepared


@dataclass(frozen=True)
class Counted:
    """The rows of a table that count towards a total: those for which `where` holds; each adds `amount`.

    Both are SQL in which `{row}` stands for the row; `changes` names the columns that may change either. `owner` is the
    column with the row's organization; None: the row belongs to the whole cloud (`EVERYBODY`).
    """

    table: str
    where: str = "TRUE"
    amount: str = "1"
    changes: tuple[str, ...] = ()
    owner: str | None = "organization_id"

    def owned_by(self, row: str) -> str:
        """SQL for the organization that a row belongs to."""
        return f"'{EVERYBODY}'" if self.owner is None else f"{row}.{self.owner}"

    @property
    def watched(self) -> tuple[str, ...]:
        """The columns whose change may change a total."""
        return (*(() if self.owner is None else (self.owner,)), *self.changes)


EVERYBODY: Final = ""
"""Stands in place of an organization for totals of the whole cloud."""


Totals = Mapping[str, Sequence[Counted]]
"""The rows that count towards each total, by its name."""

_OF_ORGANIZATION: Final = Prepared(
    text("SELECT name, total FROM temp.totals WHERE organization_id = :of_id").bindparams(bindparam("of_id"))
)
_BY_ORGANIZATION: Final = Prepared(
    text("SELECT organization_id, total FROM temp.totals WHERE name = :of_name").bindparams(bindparam("of_name"))
)


def open_totals(raw: sqlite3.Connection) -> None:
    """Create the empty table of totals; once for each connection."""
    raw.execute(
        "CREATE TEMP TABLE totals (organization_id TEXT, name TEXT, total INTEGER NOT NULL, "
        "PRIMARY KEY (organization_id, name)) WITHOUT ROWID"
    )


def track(raw: sqlite3.Connection, totals: Totals) -> None:
    """Count the existing rows, and keep the totals from here on."""
    for name, every in totals.items():
        for number, counted in enumerate(every):
            raw.execute(_count(name, counted))
            for statement in _bookkeeping(f"{name}_{number}", name, counted):
                raw.execute(statement)


def of_organization(connection: Connection, organization_id: str) -> dict[str, int]:
    """The organization's totals by name; a total that never had a row is absent."""
    return dict(_OF_ORGANIZATION.run(connection, of_id=organization_id).fetchall())


def by_organization(connection: Connection, name: str) -> dict[str, int]:
    """One total of every organization for which it ever had a row."""
    return dict(_BY_ORGANIZATION.run(connection, of_name=name).fetchall())


def _count(name: str, counted: Counted) -> str:
    where, amount = (part.format(row="each") for part in (counted.where, counted.amount))
    return (
        "INSERT INTO totals (organization_id, name, total) "  # noqa: S608 - SQL of this program, here and below
        f"SELECT {counted.owned_by('each')}, '{name}', sum({amount}) FROM main.{counted.table} AS each "
        f"WHERE {where} GROUP BY 1 "
        "ON CONFLICT (organization_id, name) DO UPDATE SET total = total + excluded.total"
    )


def _bookkeeping(trigger: str, name: str, counted: Counted) -> Iterator[str]:
    table = counted.table
    new, old = (_changed(name, counted, row, sign) for row, sign in (("NEW", "+"), ("OLD", "-")))
    holds = {row: counted.where.format(row=row) for row in ("NEW", "OLD")}
    on = f"ON main.{table} WHEN"
    yield f"CREATE TEMP TRIGGER totals_{trigger}_insert AFTER INSERT {on} {holds['NEW']} BEGIN {new} END"
    yield f"CREATE TEMP TRIGGER totals_{trigger}_delete AFTER DELETE {on} {holds['OLD']} BEGIN {old} END"
    if counted.watched:
        columns, either = ", ".join(counted.watched), f"({holds['NEW']}) OR ({holds['OLD']})"
        update = f"totals_{trigger}_update AFTER UPDATE OF {columns}"
        yield f"CREATE TEMP TRIGGER {update} {on} {either} BEGIN {old} {new} END"


def _changed(name: str, counted: Counted, row: str, sign: str) -> str:
    # No upsert: a statement that fires the trigger may say OR REPLACE, which would then apply to the upsert, too.
    where, amount = (part.format(row=row) for part in (counted.where, counted.amount))
    owner = counted.owned_by(row)
    of_row = f"organization_id = {owner} AND name = '{name}'"
    return (
        f"INSERT INTO totals SELECT {owner}, '{name}', 0 "  # noqa: S608
        f"WHERE ({where}) AND NOT EXISTS (SELECT 1 FROM totals WHERE {of_row}); "
        f"UPDATE totals SET total = total {sign} ({amount}) WHERE {of_row} AND ({where});"
    )
