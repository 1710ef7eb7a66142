"""The page of search results: objects by their exact id, and recent ones by a part of their id or name."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Column, ColumnElement, Table, and_, func, or_, select

from relay_localcloud.batches.rows import BATCHES, FILES
from relay_localcloud.capacity.nodes import NODES
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.workloads import KINDS
from relay_localcloud.kernel import tables
from relay_localcloud.webhooks.webhooks import DELIVERIES, WEBHOOKS

_MOST: Final = 10
"""How many results of each kind are shown."""
NEWEST: Final = 10_000
"""How many of the newest objects of each kind are searched by a part of their id or name."""


@dataclass(frozen=True)
class _Searched:
    """A kind of object: its title, its table, the column of its name, and the page and parameter that show one."""

    title: str
    table: Table
    name: Column[str]
    page: str
    parameter: str = "id"

    def matching(self, part: str) -> ColumnElement[bool]:
        """The condition for the newest objects whose id or name contains this part, ignoring case."""
        last = select(func.max(tables.FIRST_COME)).select_from(self.table).scalar_subquery()
        has = (func.instr(func.lower(text), func.lower(part)) > 0 for text in (self.table.c.id, self.name))
        return and_(last - NEWEST < tables.FIRST_COME, or_(*has))


_SEARCHED: Final = (
    *(_Searched(kind.title, kind.table, kind.name, "/console/workload") for kind in KINDS),
    _Searched("Nodes", NODES.table, NODES.table.c.gpu_model_id, "/console/nodes", "node"),
    _Searched("Organizations", tables.organizations, tables.organizations.c.name, "/console/workloads", "org"),
    _Searched("Batches", BATCHES.table, BATCHES.table.c.input_file_id, "/console/batch"),
    _Searched("Files", FILES.table, FILES.table.c.filename, "/console/batches", "file"),
    _Searched("Webhook deliveries", DELIVERIES.table, DELIVERIES.table.c.event_id, "/console/delivery"),
    _Searched("Webhook subscriptions", WEBHOOKS.table, WEBHOOKS.table.c.name, "/console/webhooks", "subscription"),
)


def content(reading: Reading) -> dict[str, object]:
    """The results of each kind that has any; empty for an empty search."""
    part = (reading.requested.word("q") or "").strip()
    found = [(searched, _found(reading, searched, part)) for searched in _SEARCHED] if part else []
    return {"part": part, "most": _MOST, "found": [(searched, rows) for searched, rows in found if rows]}


def _found(reading: Reading, searched: _Searched, part: str) -> list[dict[str, str]]:
    found = select(searched.table.c.id, searched.name)
    newest = found.where(searched.matching(part)).order_by(tables.FIRST_COME.desc()).limit(_MOST + 1)
    named: dict[str, str] = {}
    for query in (found.where(searched.table.c.id == part), newest):
        named |= {row[0]: row[1] for row in reading.tx.connection.execute(query)}
    return [
        {"id": each, "name": name, "href": reading.requested.to(searched.page, **{searched.parameter: each})}
        for each, name in named.items()
    ]
