"""The page of one workload: its state and spec, its cost, changes and requests, and its webhook attempts."""

import json
import shlex
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import RowMapping, func, select

from relay_localcloud.audit.entries import ENTRIES
from relay_localcloud.console import mishaps
from relay_localcloud.console.changes import offered
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.workloads import KINDS, Kind
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.loggable import showable
from relay_localcloud.http.requestlog import LoggedRequest
from relay_localcloud.kernel.instants import SECOND
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual
from relay_localcloud.money.ledger import USAGE, UsageRecord, usage_records
from relay_localcloud.webhooks.webhooks import ATTEMPTS, DELIVERIES
from relay_localcloud.workloads.vm_logs import LINES

_NEWEST_SHOWN: Final = 10
_LINES_SHOWN: Final = 100
_LOOKED_THROUGH: Final = 1_000
"""How many of its organization's newest changes, requests and attempts are searched for those about it."""

_AT_REST: Final = frozenset({"stopped", "failed"})


def content(reading: Reading) -> dict[str, object]:
    """The workload with the id in the request, of any kind; ApiError 404 if there is none."""
    tx = reading.tx
    kind, row = found(tx, reading.requested.word("id") or "")
    it = kind.shown(reading, row)
    stints = USAGE.page(tx, None, _NEWEST_SHOWN, resource_id=row["id"])
    return {
        "title": it["name"],
        "it": it,
        "offered": offered(kind.key, row["status"]),
        "mishaps": mishaps.offered(kind.key, row["status"], has_replicas=bool(it.get("members"))),
        "start": "Start" if row["status"] in _AT_REST else "Restart",
        "cost": cost_cents(tx, row["id"]),
        "stints": [_stint(each, tx.now) for each in stints],
        "commands": list(_commands(reading, kind, it)),
        "asked": json.dumps(showable(json.loads(row[kind.asked])), indent=2, ensure_ascii=False),
        "lines": LINES.page(tx, None, _LINES_SHOWN, vm_id=row["id"])[::-1] if it["kind"] == "VM" else None,
        "changes": _changes(tx, row),
        "requests": _requests(reading, row),
        "attempts": _attempts(tx, row),
    }


def found(tx: Tx, workload_id: str) -> tuple[Kind, RowMapping]:
    """The kind and the row of a workload; ApiError 404 if there is none with this id."""
    for kind in KINDS:
        row = tx.connection.execute(select(kind.table).where(kind.table.c.id == workload_id)).mappings().first()
        if row is not None:
            return kind, row
    raise ApiError(404, f"There is no workload {workload_id!r}: it was deleted, or never existed.")


def cost_cents(tx: Tx, workload_id: str) -> int:
    """The cost of all its runs up to now, in cents."""
    record = usage_records.c
    span = func.coalesce(record.ended_at, tx.now) - record.started_at
    # Seconds and the rest are summed separately, since units can overflow SQLite's integers.
    query = select(func.sum(record.rate_cents * (span // SECOND)), func.sum(record.rate_cents * (span % SECOND)))
    whole, rest = tx.connection.execute(query.where(record.resource_id == workload_id)).one()
    return accrual.cents((whole or 0) * SECOND + (rest or 0))


def _stint(record: UsageRecord, now: int) -> dict[str, object]:
    spent = ((now if record.ended_at is None else record.ended_at) - record.started_at) * record.rate_cents
    return {
        "id": record.sequence,
        "holder_id": record.holder_id,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "rate_cents": record.rate_cents,
        "cents": accrual.cents(spent),
    }


def _commands(reading: Reading, kind: Kind, it: Mapping[str, object]) -> Sequence[tuple[str, str]]:
    """Shell commands to copy, each after its purpose; the user sets `$KEY`."""
    key, with_key = ' -H "Authorization: Bearer $KEY"', "$KEY is a key of the organization"
    record = shlex.quote(f"{reading.requested.origin}{kind.path}/{it['id']}")
    commands = [(f"Read it; {with_key}", f"curl {record}{key}")]
    if it["host"] is not None:
        endpoint = shlex.quote(f"{urlsplit(reading.cloud.gateway_url).scheme}://{it['host']}/")
        public = it["access"] == "public"
        commands.append(
            ("Call it", f"curl {endpoint}") if public else (f"Call it; {with_key}", f"curl {endpoint}{key}")
        )
    return commands


def _changes(tx: Tx, row: RowMapping) -> Sequence[RowMapping]:
    """Audit entries about it, newest first."""
    entry = ENTRIES.table.c
    of_its_organization = entry.organization_id == row["organization_id"]
    last = select(func.max(entry.number)).where(of_its_organization).scalar_subquery()
    query = select(ENTRIES.table).where(of_its_organization, entry.number > last - _LOOKED_THROUGH)
    query = query.where(entry.object_id == row["id"]).order_by(entry.number.desc()).limit(_NEWEST_SHOWN)
    return tx.connection.execute(query).mappings().all()


def _requests(reading: Reading, row: RowMapping) -> list[LoggedRequest]:
    """Requests with its id in the path, newest first."""
    newest = islice(reading.cloud.requests.before(None, row["organization_id"]), _LOOKED_THROUGH)
    return list(islice((logged for logged in newest if row["id"] in logged.path.split("/")), _NEWEST_SHOWN))


def _attempts(tx: Tx, row: RowMapping) -> Sequence[RowMapping]:
    """Webhook attempts whose events mention it, newest first."""
    attempt, delivery = ATTEMPTS.table.c, DELIVERIES.table.c
    of_its_organization = select(ATTEMPTS.table).where(attempt.organization_id == row["organization_id"])
    newest = of_its_organization.order_by(attempt.sequence.desc()).limit(_LOOKED_THROUGH).subquery()
    query = select(newest).join(DELIVERIES.table, newest.c.delivery_id == delivery.id)
    query = query.where(func.instr(delivery.body, f'"{row["id"]}"') > 0).order_by(newest.c.sequence.desc())
    return tx.connection.execute(query.limit(_NEWEST_SHOWN)).mappings().all()
