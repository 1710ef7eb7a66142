"""The state as one JSON document: `{schemaVersion, tables: {name: [row, ...]}, files}`, rows as objects.

`batches/storage.py` has the contents of files.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from sqlalchemy import Column, Connection, MetaData, StaticPool, Table, create_engine, delete, func, insert, select
from sqlalchemy.exc import SQLAlchemyError

from relay_localcloud.clock.state import ClockState
from relay_localcloud.identity.organizations import Founded
from relay_localcloud.kernel import due, migrations
from relay_localcloud.kernel.disk import StateFileError
from relay_localcloud.kernel.schema import SCHEMA_VERSION, metadata
from relay_localcloud.kernel.store import Tx, read_meta
from relay_localcloud.money import payments
from relay_localcloud.settings import Settings

Row = dict[str, JsonValue]

_FACTS: Mapping[str, TypeAdapter[Any]] = {
    "clock": TypeAdapter(ClockState),
    "settings": TypeAdapter(Settings),
    "seed": TypeAdapter(Founded),
    "payments": payments.MODE,
}
"""The single facts of the table `meta`, all of which are read when a state is opened."""


_LAST_TOGGLE: Final = "SELECT max(CAST(value AS INTEGER)) FROM webhooks, json_each(toggled_after)"
"""The due item that the last toggle came after, by the order of the state that was exported."""


def exported(tx: Tx) -> dict[str, JsonValue]:
    """Every row of every table."""
    tables: dict[str, JsonValue] = {table.name: _all(tx.connection, table) for table in metadata.sorted_tables}
    return {"schemaVersion": SCHEMA_VERSION, "tables": tables}


def replace(tx: Tx, document: JsonValue) -> int:
    """Replace all rows by a document's, and return how many; a StateFileError leaves all as it was."""
    try:
        rows = _rows_of(document)
        clear(tx)
        for table in metadata.sorted_tables:
            if rows[table.name]:
                tx.connection.execute(insert(table), rows[table.name])
        due.begin_after(tx.connection, tx.connection.exec_driver_sql(_LAST_TOGGLE).scalar() or 0)
    except (SQLAlchemyError, sqlite3.Error, OverflowError) as error:
        raise StateFileError(f"a row does not fit its table ({type(error).__name__})") from error
    _check_facts(tx)
    return sum(map(len, rows.values()))


def clear(tx: Tx) -> None:
    """Remove every row of every table."""
    for table in reversed(metadata.sorted_tables):
        tx.connection.execute(delete(table))


def _rows_of(document: JsonValue) -> dict[str, list[Row]]:
    version = document.get("schemaVersion") if isinstance(document, dict) else None
    if not isinstance(document, dict) or type(version) is not int or not 1 <= version <= SCHEMA_VERSION:
        raise StateFileError(f"this is not an exported state with a schemaVersion of 1 to {SCHEMA_VERSION}")
    given = document.get("tables")
    if not isinstance(given, dict):
        raise StateFileError("tables is missing")
    unknown = sorted(given.keys() - metadata.tables.keys())
    if unknown:
        raise StateFileError(f"there is no table {unknown[0]!r}")
    rows = {table.name: _rows(table, given.get(table.name, [])) for table in metadata.sorted_tables}
    return rows if version == SCHEMA_VERSION else _upgraded(rows, version)


def is_fresh(tx: Tx) -> bool:
    """Whether nothing was ever stored here except the clock."""
    return tx.connection.execute(select(func.count()).select_from(metadata.tables["organizations"])).scalar() == 0


def _check_facts(tx: Tx) -> None:
    for name, shape in _FACTS.items():
        kept = read_meta(tx.connection, name)
        try:
            if kept is not None:
                shape.validate_json(kept)
        except ValidationError as error:
            raise StateFileError(f"the row {name!r} of tables.meta cannot be read") from error


def _rows(table: Table, given: JsonValue) -> list[Row]:
    if not isinstance(given, list):
        raise StateFileError(f"tables.{table.name} is not a list")
    names = {column.name for column in table.columns}
    if given and isinstance(given[0], dict):
        names &= given[0].keys()  # a release may add columns with defaults without a new version
    for row in given:
        if not isinstance(row, dict) or row.keys() != names:
            raise StateFileError(f"a row of tables.{table.name} has other fields than {', '.join(sorted(names))}")
        if not all(_fits(table, row)):
            raise StateFileError(f"a row of tables.{table.name} has a value of the wrong type")
    return cast("list[Row]", given)


def _fits(table: Table, row: Mapping[str, JsonValue]) -> list[bool]:
    types = {column.name: column.type.python_type for column in table.columns}
    return [value is None or isinstance(value, types[name]) for name, value in row.items()]


def _upgraded(tables: Mapping[str, Sequence[Row]], version: int) -> dict[str, list[Row]]:
    """The rows of a former version in all tables of this one, migrated in a database in memory.

    SQLAlchemyError or sqlite3.Error if a row does not fit its own table.
    """
    raw = sqlite3.connect(":memory:", isolation_level=None)
    engine = create_engine("sqlite://", creator=lambda: raw, poolclass=StaticPool)
    with engine.connect() as connection, connection.begin():
        for name, rows in tables.items():
            if rows:
                _restore(connection, metadata.tables[name], rows)
        migrations.migrate(connection, raw, version)
        migrated = {table.name: _all(connection, table) for table in metadata.sorted_tables}
    engine.dispose()
    return migrated


def _restore(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    columns = [Column(c.name, c.type, primary_key=c.primary_key) for c in table.columns if c.name in rows[0]]
    former = Table(table.name, MetaData(), *columns)
    former.create(connection)
    connection.execute(insert(former), rows)


def _all(connection: Connection, table: Table) -> Any:  # noqa: ANN401 - rows as JSON
    return [dict(row) for row in connection.execute(select(table)).mappings()]
