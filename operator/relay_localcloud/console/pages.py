"""Every page of the console: its label, its template, and the values for that."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from itertools import islice
from typing import Final

from pydantic import JsonValue
from sqlalchemy import func, select

from relay_localcloud.audit.entries import ENTRIES
from relay_localcloud.batches.rows import BATCHES, FILES
from relay_localcloud.console import (
    batch,
    costs,
    delivery,
    keys,
    money,
    nodes,
    playground,
    quotas,
    search,
    settings,
    workload,
    workloads,
)
from relay_localcloud.console.balance import Chart
from relay_localcloud.console.reading import Reading
from relay_localcloud.faults import faults
from relay_localcloud.http.requestlog import LoggedRequest
from relay_localcloud.kernel import tables
from relay_localcloud.webhooks.webhooks import ATTEMPTS, WEBHOOKS

_ON_A_PAGE: Final = 25
_REQUESTS_ON_A_PAGE: Final = 50
_NEWEST_SHOWN: Final = 5
_SUBSCRIPTIONS_SHOWN: Final = 50
_DUE_SHOWN: Final = 25
_LOOKED_THROUGH: Final = 1_000
"""How many of the newest requests are searched for unread fields."""

_FILTERS: Final[Mapping[str | None, tuple[str, Callable[[LoggedRequest], object]]]] = {
    None: ("All", lambda _: True),
    "unread": ("With unread fields", lambda logged: logged.unread_fields),
    "refused": ("Refused", lambda logged: logged.status is not None and logged.status >= HTTPStatus.BAD_REQUEST),
    "faults": ("Met by a fault", lambda logged: logged.fault_id is not None),
}
"""Filters of requests by the parameter `only`: a label and a predicate."""

SIMPLE_EFFECTS: Final[Mapping[str, tuple[str, dict[str, JsonValue]]]] = {
    "500": ("Answer 500", {"status": 500}),
    "503": ("Answer 503", {"status": 503}),
    "429": ("Answer 429, Retry-After 2", {"status": 429, "headers": {"Retry-After": "2"}}),
    "lost-reply": ("Do it, lose the reply", {"drop": "after"}),
    "lost-request": ("Break the connection before it is done", {"drop": "before"}),
    "slow": ("Answer 5 seconds later", {"delaySeconds": 5}),
    "html": ("Answer with an HTML page", {"html": True}),
    "truncated": ("Break the answer off after 20 bytes", {"truncateBytes": 20}),
    "webhook-lost": ("Webhook: lose it", {"lose": True}),
    "webhook-twice": ("Webhook: send it twice", {"duplicate": 1}),
    "webhook-late": ("Webhook: 30 seconds late", {"delaySeconds": 30}),
    "webhook-reordered": ("Webhook: after the next one", {"reorder": True}),
}
"""The simple effects of faults by the word that the form sends: a label, and the effect for the control interface."""


def _overview(reading: Reading) -> dict[str, object]:
    """Counts, the balance, and the newest workloads, attempts and requests."""
    balance = money.balance(reading)
    return {
        "balance": balance,
        "chart": Chart(balance.points, min(point.cents for point in balance.points)),
        "states": workloads.tallied(reading),
        "nodes": nodes.sentence(reading.tx),
        "faults": len(faults.every(reading.tx)),
        "unread": sum(1 for logged in _newest_requests(reading, _LOOKED_THROUGH) if logged.unread_fields),
        "workloads": workloads.newest(reading, _NEWEST_SHOWN),
        "attempts": reading.newest(ATTEMPTS.table, _NEWEST_SHOWN),
        "requests": _newest_requests(reading, _NEWEST_SHOWN),
    }


def _batches(reading: Reading) -> dict[str, object]:
    """Batches and files, newest first; with `file=<id>`, that file alone."""
    file, only = FILES.table.c, reading.requested.word("file")
    shown = [file.deleted_at.is_(None), *([] if only is None else [file.id == only])]
    return {
        "batches": reading.page(BATCHES.table, _ON_A_PAGE, place="batches-before"),
        "files": reading.page(FILES.table, _ON_A_PAGE, *shown, place="files-before"),
    }


def _webhooks(reading: Reading) -> dict[str, object]:
    """Subscriptions and attempts, newest first.

    With `only=failed`, the attempts that no receiver accepted; with `subscription=<id>`, that subscription alone.
    """
    only = "failed" if reading.requested.word("only") == "failed" else None
    not_taken = ~func.coalesce(ATTEMPTS.table.c.status_code, 0).between(200, 299)
    query = select(WEBHOOKS.table).order_by(tables.FIRST_COME.desc()).limit(_SUBSCRIPTIONS_SHOWN + 1)
    if reading.requested.organization_id is not None:
        query = query.where(WEBHOOKS.table.c.organization_id == reading.requested.organization_id)
    if (subscription := reading.requested.word("subscription")) is not None:
        query = query.where(WEBHOOKS.table.c.id == subscription)
    subscriptions = reading.tx.connection.execute(query).mappings().all()
    return {
        "only": only,
        "attempts": reading.page(ATTEMPTS.table, _ON_A_PAGE, *[not_taken] if only else [], only=only),
        "subscriptions": subscriptions[:_SUBSCRIPTIONS_SHOWN],
        "more": len(subscriptions) > _SUBSCRIPTIONS_SHOWN,
    }


def _requests(reading: Reading) -> dict[str, object]:
    """The newest requests, without those to the control interface and the console."""
    asked = reading.requested.word("only")
    only = asked if asked in _FILTERS else None
    found = _newest_requests(reading, _REQUESTS_ON_A_PAGE + 1, before=reading.requested.number("before"), only=only)
    return {
        "only": only,
        "filters": {word: label for word, (label, _) in _FILTERS.items()},
        "requests": reading.part(found, _REQUESTS_ON_A_PAGE, lambda logged: logged.seq, only=only),
    }


def _newest_requests(
    reading: Reading, count: int, *, before: int | None = None, only: str | None = None
) -> list[LoggedRequest]:
    found = reading.cloud.requests.before(before, reading.requested.organization_id)
    return list(islice(filter(_FILTERS[only][1], found), count))


def _audit(reading: Reading) -> dict[str, object]:
    """The audit log, newest first."""
    return {"entries": reading.page(ENTRIES.table, _REQUESTS_ON_A_PAGE)}


def _faults(reading: Reading) -> dict[str, object]:
    """Every fault with how often it was met and applied, and the values of the form for simple faults."""
    operations = [name for name in reading.cloud.operations.names if " /v1/" in name]
    return {
        "faults": [
            {**item, "written_effect": json.dumps(item["effect"]), "conditions": list(_conditions(item))}
            for item in faults.every(reading.tx)
        ],
        "operations": [*sorted(operations, key=lambda name: name.split(" ")[::-1]), faults.WEBHOOK],
        "effects": {word: label for word, (label, _) in SIMPLE_EFFECTS.items()},
    }


def _conditions(item: Mapping[str, object]) -> Iterable[str]:
    if item["skip"]:
        yield f"after {item['skip']}"
    if item["count"] is not None:
        yield f"{item['count']} at most"
    if item["probability"] is not None:
        yield f"with probability {item['probability']}"


def _outbox(reading: Reading) -> dict[str, object]:
    """E-mails, newest first, without the tokens in them, which `GET /_localcloud/outbox` shows."""
    return {"letters": reading.page(tables.outbox, _ON_A_PAGE)}


def _clock(reading: Reading) -> dict[str, object]:
    """The next due items."""
    item = tables.due.c
    query = select(item.id, item.due_at, item.kind, item.subject).order_by(item.due_at, item.id).limit(_DUE_SHOWN)
    return {"due": reading.tx.connection.execute(query).all()}


@dataclass(frozen=True)
class Page:
    """A page: the label of its link, its template, and what returns the values for that.

    The page of a single object is `under` the page that lists such objects, and has no link of its own.
    """

    label: str
    template: str
    content: Callable[[Reading], dict[str, object]]
    under: str | None = None


PAGES: Final[Mapping[str, Page]] = {
    "/": Page("Overview", "overview.html", _overview),
    "/console/workloads": Page("Workloads", "workloads.html", workloads.content),
    "/console/workload": Page("Workload", "workload.html", workload.content, under="/console/workloads"),
    "/console/keys": Page("SSH keys", "keys.html", keys.content),
    "/console/nodes": Page("Nodes", "nodes.html", nodes.content),
    "/console/money": Page("Money", "money.html", money.content),
    "/console/costs": Page("Costs", "costs.html", costs.content),
    "/console/quotas": Page("Quotas", "quotas.html", quotas.content),
    "/console/batches": Page("Batches", "batches.html", _batches),
    "/console/batch": Page("Batch", "batch.html", batch.content, under="/console/batches"),
    "/console/webhooks": Page("Webhooks", "webhooks.html", _webhooks),
    "/console/delivery": Page("Delivery", "delivery.html", delivery.content, under="/console/webhooks"),
    "/console/requests": Page("Requests", "requests.html", _requests),
    "/console/search": Page("Search", "search.html", search.content, under="/"),
    "/console/playground": Page("Playground", "playground.html", playground.content),
    "/console/audit": Page("Audit", "audit.html", _audit),
    "/console/faults": Page("Faults", "faults.html", _faults),
    "/console/outbox": Page("Outbox", "outbox.html", _outbox),
    "/console/clock": Page("Clock", "clock.html", _clock),
    "/console/settings": Page("Settings", "settings.html", settings.content),
}
"""The pages by address."""
