"""Migrates states of former versions to this one, in the one transaction that opens them.

Tables, columns and indexes that a state lacks are added to it, whatever its version: new columns are nullable or have
a constant default. Any other change to a state of version n is the function `MIGRATIONS[n]`, which leads to n + 1;
it is plain SQL and pure arithmetic, since the rest of the program may change after it.
"""

import json
import sqlite3
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from sqlalchemy import Column, Connection, Table
from sqlalchemy.schema import CreateColumn
from sqlalchemy.sql.schema import ScalarElementColumnDefault

from relay_localcloud.kernel.instants import DAY, LAST, SECOND
from relay_localcloud.kernel.schema import SCHEMA_VERSION, metadata

Migration = Callable[[sqlite3.Connection, frozenset[str]], None]
"""Changes a state's rows, once all tables exist; the second argument names the tables that were missing."""


def migrate(connection: Connection, raw: sqlite3.Connection, version: int) -> None:
    """Migrate a state of this or a former version to this version, in the open transaction."""
    lacked = _add_tables(connection, raw)
    for former in range(version, SCHEMA_VERSION):
        MIGRATIONS[former](raw, lacked)


def _add_tables(connection: Connection, raw: sqlite3.Connection) -> frozenset[str]:
    present = {name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'index')")}
    lacking = [table for table in metadata.sorted_tables if table.name not in present]
    metadata.create_all(connection, lacking, checkfirst=False)
    for table in metadata.sorted_tables:
        if table.name in present:
            _add_columns(connection, raw, table)
            for index in table.indexes:
                if index.name not in present:
                    index.create(connection)
    return frozenset(table.name for table in lacking)


def _add_columns(connection: Connection, raw: sqlite3.Connection, table: Table) -> None:
    present = {row[1] for row in raw.execute(f"PRAGMA table_info({table.name})")}
    for column in table.columns:
        if column.name not in present:
            definition = CreateColumn(column).compile(dialect=connection.dialect)
            raw.execute(f"ALTER TABLE {table.name} ADD COLUMN {definition}{_default(column)}")


def _default(column: Column[object]) -> str:
    if not isinstance(column.default, ScalarElementColumnDefault):
        return ""
    value = column.default.arg
    quoted = f"{value:d}" if isinstance(value, int) else "'{}'".format(str(value).replace("'", "''"))
    return f" DEFAULT {quoted}"


def _cards_settlements_and_recharges(raw: sqlite3.Connection, lacked: frozenset[str]) -> None:
    # Version 1 had no cards, no settlements, and auto-recharge settings without effect.
    if "payment_methods" not in lacked:
        return
    raw.execute(
        "INSERT INTO payment_methods (id, organization_id, brand, last4, exp_month, exp_year, requires_action) "
        "SELECT 'pm_' || lower(hex(randomblob(10))), organization_id, 'visa', '4242', 12, 2099, 0 FROM accounts"
    )
    accounts = raw.execute(
        "SELECT organization_id, balance_cents, recharge_enabled, recharge_threshold_cents, "
        "read_at, month_units, earlier_units, burn FROM accounts"
    ).fetchall()
    for organization_id, balance, recharges, threshold, read_at, month_units, earlier_units, burn in accounts:
        accrued = month_units + earlier_units  # in 1/3600 cent
        if burn or accrued:
            _schedule(raw, "billing.settlement", organization_id, _settlement_at(read_at))
        missing = max(0, 3600 * (balance - threshold + 1) - accrued)
        if recharges and (burn or not missing):
            below = read_at + -(-missing // (burn or 1))
            _schedule(raw, "billing.auto_recharge", organization_id, below)


def _settlement_at(second: int) -> int:
    """The first settlement time (day 1 of a month, 00:10 UTC) at or after a second."""
    before = datetime.fromtimestamp(second - 601, UTC)
    start = (before.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=10, second=0)
    return int(start.timestamp())


def _schedule(raw: sqlite3.Connection, kind: str, organization_id: str, second: int) -> None:
    if second * SECOND <= LAST:
        values = (second * SECOND, kind, organization_id)
        raw.execute("INSERT INTO due (due_at, kind, subject, payload) VALUES (?, ?, ?, '{}')", values)


def _addresses(raw: sqlite3.Connection, lacked: frozenset[str]) -> None:
    # Version 2 counted the holders of addresses and did not store them.
    if "addresses" not in lacked:
        return
    raw.execute(
        "INSERT INTO addresses (holder_id) SELECT id FROM workloads WHERE terminated_at IS NULL "
        "AND status IN ('deploying', 'running', 'stopping', 'interrupted') "
        "UNION ALL SELECT id FROM replicas WHERE terminated_at IS NULL "
        "UNION ALL SELECT id FROM serving_replicas WHERE terminated_at IS NULL"
    )


def _catalogs(raw: sqlite3.Connection, _: frozenset[str]) -> None:
    # In version 3 a deployment of a built-in model answered requests of every organization.
    raw.execute("UPDATE serving_deployments SET catalog_id = organization_id")


def _microseconds(raw: sqlite3.Connection, _: frozenset[str]) -> None:
    # Version 4 billed by whole seconds of the clock, so that a run within one of them cost nothing.
    raw.execute("UPDATE accounts SET read_at = read_at * 1000000, month_start = month_start * 1000000")
    raw.execute("UPDATE usage_records SET started_at = started_at * 1000000, ended_at = ended_at * 1000000")


def _ended(raw: sqlite3.Connection, _: frozenset[str]) -> None:
    # Version 5 kept ended rows for ever. Rows with a retention period go once the newest of them has exceeded it.
    raw.execute("DELETE FROM replicas WHERE terminated_at IS NOT NULL")
    raw.execute("DELETE FROM serving_replicas WHERE terminated_at IS NOT NULL")
    raw.execute("DELETE FROM serving_deployments WHERE gone_at IS NOT NULL")
    for table, ended, days in (
        ("workloads", "terminated_at", 1),
        ("clusters", "terminated_at", 1),
        ("files", "deleted_at", 1),
        ("batches", "ended_at", 30),
        ("api_keys", "revoked_at", 1),
        ("provisioning_tokens", "revoked_at", 1),
    ):
        raw.execute(
            "INSERT OR IGNORE INTO due (due_at, kind, subject, payload) "  # noqa: S608 - names of this program
            f"SELECT max({ended}) + {days} * 86400000000, 'forget', '{table}', '{{}}' FROM {table} "
            f"WHERE {ended} IS NOT NULL HAVING max({ended}) IS NOT NULL"
        )


def _usage_in_sums(raw: sqlite3.Connection, lacked: frozenset[str]) -> None:
    # Version 6 computed an organization's usage from all runs, and a node's earnings from all runs but forgotten ones.
    if "usage_days" not in lacked:
        return
    raw.execute(
        "INSERT INTO usage_days SELECT organization_id, at - late, sum(sign), sum(sign * rate), sum(sign * late), "
        "sum(sign * rate * (late / 1000000)), sum(sign * rate * (late % 1000000)) FROM ("
        "SELECT organization_id, started_at AS at, started_at % 86400000000 AS late, 1 AS sign, rate_cents AS rate "
        "FROM usage_records UNION ALL SELECT organization_id, ended_at, ended_at % 86400000000, -1, rate_cents "
        "FROM usage_records WHERE ended_at IS NOT NULL) GROUP BY 1, 2"
    )
    kept = raw.execute("SELECT node_id, by_month FROM past_earnings")
    earned = {node: Counter(json.loads(by_month)) for node, by_month in kept}
    runs = (
        "SELECT node_id, started_at, ended_at, rate_cents FROM usage_records WHERE node_id NOTNULL AND ended_at NOTNULL"
    )
    for node, started_at, ended_at, rate in raw.execute(runs):
        for start, ran in _by_month(started_at, ended_at):
            earned.setdefault(node, Counter())[str(start)] += ran * rate
    rows = [(node, json.dumps(by_month)) for node, by_month in earned.items()]
    raw.executemany("INSERT OR REPLACE INTO past_earnings (node_id, by_month) VALUES (?, ?)", rows)
    raw.execute("DROP INDEX IF EXISTS usage_on_node")


def _shares_of_webhooks(raw: sqlite3.Connection, _: frozenset[str]) -> None:
    # In version 7 events of many subscriptions delayed everybody, and shortening the log added up all attempts.
    raw.execute("UPDATE due SET lane = json_extract(payload, '$.organization_id') WHERE kind = 'webhook.fan_out'")
    raw.execute(
        "UPDATE webhook_attempts SET size = 300 + coalesce(length(error), 0) + coalesce("
        "(SELECT length(body) FROM webhook_deliveries WHERE id = webhook_attempts.delivery_id), 0)"
    )


def _by_month(since: int, until: int) -> Iterator[tuple[int, int]]:
    while since < until:
        month = datetime.fromtimestamp(since // SECOND, UTC).replace(day=1, hour=0, minute=0, second=0)
        start = int(month.timestamp()) * SECOND
        over = min(start + monthrange(month.year, month.month)[1] * DAY, until)
        yield start, over - since
        since = over


MIGRATIONS: Final[Mapping[int, Migration]] = {
    1: _cards_settlements_and_recharges,
    2: _addresses,
    3: _catalogs,
    4: _microseconds,
    5: _ended,
    6: _usage_in_sums,
    7: _shares_of_webhooks,
}
"""Migrations by the version that each starts from."""
