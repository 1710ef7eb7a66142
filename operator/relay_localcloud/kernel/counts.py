"""How much each organization has of what is counted: totals that triggers keep, whoever changes the rows.

A total is exact inside the transaction that changes it, and is rolled back with it; reading one reads no row that it
counts. Totals are in memory, and are counted when a state is opened.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, text

from relay_localcloud.kernel.prepared import Prepared


@dataclass(frozen=True)
class Counted:
    """Rows of a table that count: those for which `where` holds, `amount` each.

    Both are SQL in which `{row}` stands for the row; `changes` names the columns that may change either. `owner` is the
    column that says whose a row is; None: the whole cloud's (`EVERYBODY`).
    """

    table: str
    where: str = "TRUE"
    amount: str = "1"
    changes: tuple[str, ...] = ()
    owner: str | None = "organization_id"

    def owned_by(self, row: str) -> str:
        """SQL for whose a row is."""
        return f"'{EVERYBODY}'" if self.owner is None else f"{row}.{self.owner}"

    @property
    def watched(self) -> tuple[str, ...]:
        """The columns whose change may change a total."""
        return (*(() if self.owner is None else (self.owner,)), *self.changes)


EVERYBODY: Final = ""
"""In the place of an organization: of totals of the whole cloud."""


Totals = Mapping[str, Sequence[Counted]]
"""What counts to each total."""

_OF_ORGANIZATION: Final = Prepared(
    text("SELECT name, total FROM temp.totals WHERE organization_id = :of_id").bindparams(bindparam("of_id"))
)
_BY_ORGANIZATION: Final = Prepared(
    text("SELECT organization_id, total FROM temp.totals WHERE name = :of_name").bindparams(bindparam("of_name"))
)


def open_totals(raw: sqlite3.Connection) -> None:
    """Begin with no total; once for each connection."""
    raw.execute(
        "CREATE TEMP TABLE totals (organization_id TEXT, name TEXT, total INTEGER NOT NULL, "
        "PRIMARY KEY (organization_id, name)) WITHOUT ROWID"
    )


def track(raw: sqlite3.Connection, totals: Totals) -> None:
    """Count what there is, and whatever changes from here on."""
    for name, every in totals.items():
        for number, counted in enumerate(every):
            raw.execute(_count(name, counted))
            for statement in _bookkeeping(f"{name}_{number}", name, counted):
                raw.execute(statement)


def of_organization(connection: Connection, organization_id: str) -> dict[str, int]:
    """Its totals by name; what it never had is not among them."""
    return dict(_OF_ORGANIZATION.run(connection, of_id=organization_id).fetchall())


def by_organization(connection: Connection, name: str) -> dict[str, int]:
    """One total of every organization that ever had any of it."""
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
    # No upsert: what caused the trigger may say OR REPLACE, which would then hold for it, too.
    where, amount = (part.format(row=row) for part in (counted.where, counted.amount))
    owner = counted.owned_by(row)
    of_row = f"organization_id = {owner} AND name = '{name}'"
    return (
        f"INSERT INTO totals SELECT {owner}, '{name}', 0 "  # noqa: S608
        f"WHERE ({where}) AND NOT EXISTS (SELECT 1 FROM totals WHERE {of_row}); "
        f"UPDATE totals SET total = total {sign} ({amount}) WHERE {of_row} AND ({where});"
    )
