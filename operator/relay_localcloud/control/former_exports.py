"""Exported states of former releases: their rows are put into a database in memory, migrated there, and read again."""

import sqlite3
from collections.abc import Mapping, Sequence

from pydantic import JsonValue
from sqlalchemy import Column, Connection, MetaData, StaticPool, Table, create_engine, insert, select

from relay_localcloud.kernel import migrations
from relay_localcloud.kernel.schema import metadata

Row = dict[str, JsonValue]


def upgraded(tables: Mapping[str, Sequence[Row]], version: int) -> dict[str, list[Row]]:
    """The rows of all tables of this version; SQLAlchemyError or sqlite3.Error where a row fits no table of its own."""
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


def _all(connection: Connection, table: Table) -> list[Row]:
    return [dict(row) for row in connection.execute(select(table)).mappings()]
