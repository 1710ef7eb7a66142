"""The page of nodes: what sits on which GPU, and taking nodes down and bringing them back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import RowMapping, func, select

from relay_localcloud.capacity.catalog import GPU_MODELS, LOCATIONS
from relay_localcloud.capacity.claims import claims
from relay_localcloud.capacity.nodes import nodes
from relay_localcloud.clusters.clusters import clusters
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import counted
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.workloads import workloads

_ON_A_PAGE: Final = 24
_UNITS_SHOWN: Final = 64
_COLOURS: Final = 6
"""How many colours tell the workloads of a node apart."""


def sentence(tx: Tx) -> str:
    """How many nodes and GPUs there are, and how many are up and taken."""
    node = nodes.c
    totals = select(func.count(), func.sum(node.gpu_count), func.sum(node.gpu_count - node.free_count))
    there = tx.connection.execute(totals.where(node.removed_at.is_(None))).one()
    silent = select(func.count()).where(node.removed_at.is_(None), node.reporting.is_(False))
    down = int(tx.connection.execute(silent).scalar_one())
    up = "all report" if not down else f"{down:,} silent"
    return f"{counted(there[0], 'node')}, {up}; {there[2] or 0:,} of {counted(there[1] or 0, 'GPU')} taken."


def content(reading: Reading) -> dict[str, object]:
    """Every node in the order in which they came, or one."""
    tx, node = reading.tx, nodes.c
    after, only = reading.requested.number("after"), reading.requested.word("node")
    query = select(nodes).where(node.removed_at.is_(None)).order_by(node.sequence).limit(_ON_A_PAGE + 1)
    if after is not None:
        query = query.where(node.sequence > after)
    if only is not None:
        query = query.where(node.id == only)
    found = tx.connection.execute(query).mappings().all()
    part = reading.part(found, _ON_A_PAGE, lambda row: row["sequence"], "after")
    units = _units(tx, [row["id"] for row in part.rows])
    names = _names(tx, {workload for held in units.values() for workload in held.values()})
    cards = [_card(row, units.get(row["id"], {}), names) for row in part.rows]
    return {"sentence": sentence(tx), "cards": cards, "part": part, "most_units": _UNITS_SHOWN}


def _card(row: RowMapping, units: Mapping[int, str], names: Mapping[str, str]) -> dict[str, object]:
    """A node, its holders in the order of their first units, and who holds which unit."""
    model, place = GPU_MODELS.get(row["gpu_model_id"]), LOCATIONS.get(row["location"])
    holders = {
        workload: {"id": workload, "name": names.get(workload, workload), "units": count, "colour": number % _COLOURS}
        for number, (workload, count) in enumerate(Counter(units.values()).items())
    }
    return {
        "row": row,
        "model": model.name if model else row["gpu_model_id"],
        "where": place.name if place else row["location"],
        "units": {number: holders[workload] for number, workload in units.items()},
        "holders": list(holders.values()),
    }


def _units(tx: Tx, node_ids: Sequence[str]) -> dict[str, dict[int, str]]:
    """Who holds which of the units that are shown, by node."""
    claim = claims.c
    query = select(claim.node_id, claim.unit, claim.workload_id)
    query = query.where(claim.node_id.in_(node_ids), claim.unit < _UNITS_SHOWN)
    found: dict[str, dict[int, str]] = {}
    for row in tx.connection.execute(query.order_by(claim.node_id, claim.unit)):
        found.setdefault(row.node_id, {})[row.unit] = row.workload_id
    return found


def _names(tx: Tx, workload_ids: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for table in (workloads, clusters):
        query = select(table.c.id, table.c.name).where(table.c.id.in_(workload_ids))
        names.update((row.id, row.name) for row in tx.connection.execute(query))
    return names
