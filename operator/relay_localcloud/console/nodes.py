"""The page of nodes: which workload has which GPU, with forms that add, remove, silence and restore nodes.

Containers that no workload of the state has are listed below.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

from sqlalchemy import func, select

from relay_localcloud.capacity.catalog import GPU_MODELS, LOCATIONS
from relay_localcloud.capacity.claims import claims
from relay_localcloud.capacity.nodes import NODES, Node, nodes, status_of
from relay_localcloud.capacity.reservations import reserved_units
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import counted
from relay_localcloud.console.workloads import KINDS
from relay_localcloud.kernel.store import Tx

_ON_A_PAGE: Final = 24
_UNITS_SHOWN: Final = 64
"""How many units of a node are shown, so as many workloads; the first workloads have all of these units."""
_COLOURS: Final = 6
"""How many colours distinguish the workloads of a node."""


def sentence(tx: Tx) -> str:
    """How many nodes there are in each status, and how many of their GPUs are taken."""
    node = nodes.c
    query = select(node.hold, node.reporting, func.count(), func.sum(node.gpu_count))
    query = query.where(node.removed_at.is_(None)).group_by(node.hold, node.reporting)
    by_status: Counter[str] = Counter()
    gpus = 0
    for hold, reporting, count, units in tx.connection.execute(query):
        by_status[status_of(hold, reporting=reporting)] += count
        gpus += units
    taken = tx.connection.execute(select(func.count()).select_from(claims)).scalar_one()
    statuses = ", ".join(f"{count:,} {status}" for status, count in by_status.most_common())
    return f"{counted(by_status.total(), 'node')}: {statuses or 'none'}; {taken:,} of {counted(gpus, 'GPU')} taken."


def content(reading: Reading) -> dict[str, object]:
    """A page of nodes in the order of their creation, or the one that the request selects."""
    tx, node = reading.tx, nodes.c
    after, only = reading.requested.number("after"), reading.requested.word("node")
    query = select(*NODES.columns.values()).where(node.removed_at.is_(None)).order_by(node.sequence)
    if after is not None:
        query = query.where(node.sequence > after)
    if only is not None:
        query = query.where(node.id == only)
    found = [NODES.of(row) for row in tx.connection.execute(query.limit(_ON_A_PAGE + 1))]
    part = reading.part(found, _ON_A_PAGE, lambda each: each.sequence, "after")
    shown = [each.id for each in part.rows]
    held, units, reserved = _held(tx, shown), _units(tx, shown), _reserved(tx, shown)
    names = _names(tx, {workload for of_node in held.values() for workload in islice(of_node, _UNITS_SHOWN)})
    cards = [_card(each, held[each.id], units.get(each.id, {}), reserved[each.id], names) for each in part.rows]
    return {
        "sentence": sentence(tx),
        "cards": cards,
        "part": part,
        "orphans": sorted(tx.runtime.orphans(), key=lambda each: each.created_at),
        "most_units": _UNITS_SHOWN,
        "models": {model.id: model.name for model in GPU_MODELS.values()},
        "locations": {place.id: place.name for place in LOCATIONS.values()},
    }


def _card(
    node: Node, held: Mapping[str, int], units: Mapping[int, str], reserved: set[int], names: Mapping[str, str]
) -> dict[str, object]:
    """A node, the first of its holders, and the holder of each unit that is shown."""
    model, place = GPU_MODELS.get(node.gpu_model_id), LOCATIONS.get(node.location)
    holders = {
        workload: {"id": workload, "name": names.get(workload, workload), "units": count, "colour": number % _COLOURS}
        for number, (workload, count) in enumerate(islice(held.items(), _UNITS_SHOWN))
    }
    return {
        "node": node,
        "model": model.name if model else node.gpu_model_id,
        "where": place.name if place else node.location,
        "reserved": reserved,
        "units": {number: holders[workload] for number, workload in units.items()},
        "holders": list(holders.values()),
        "more_holders": len(held) - len(holders),
    }


def _held(tx: Tx, node_ids: Sequence[str]) -> dict[str, dict[str, int]]:
    """How many units each holder has, by node; the holders in the order of their first units."""
    claim = claims.c
    query = select(claim.node_id, claim.workload_id, func.count()).where(claim.node_id.in_(node_ids))
    found: dict[str, dict[str, int]] = {node_id: {} for node_id in node_ids}
    for node_id, workload_id, count in tx.connection.execute(
        query.group_by(claim.node_id, claim.workload_id).order_by(func.min(claim.unit))
    ):
        found[node_id][workload_id] = count
    return found


def _units(tx: Tx, node_ids: Sequence[str]) -> dict[str, dict[int, str]]:
    """The holders of the units that are shown, by node and unit."""
    claim = claims.c
    query = select(claim.node_id, claim.unit, claim.workload_id)
    query = query.where(claim.node_id.in_(node_ids), claim.unit < _UNITS_SHOWN)
    found: dict[str, dict[int, str]] = {}
    for row in tx.connection.execute(query.order_by(claim.node_id, claim.unit)):
        found.setdefault(row.node_id, {})[row.unit] = row.workload_id
    return found


def _reserved(tx: Tx, node_ids: Sequence[str]) -> dict[str, set[int]]:
    """The units that are reserved and not held, by node."""
    unit = reserved_units.c
    query = select(unit.node_id, unit.unit).where(unit.node_id.in_(node_ids), unit.free)
    found: dict[str, set[int]] = {node_id: set() for node_id in node_ids}
    for row in tx.connection.execute(query):
        found[row.node_id].add(row.unit)
    return found


def _names(tx: Tx, workload_ids: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for kind in KINDS:
        query = select(kind.table.c.id, kind.name).where(kind.table.c.id.in_(workload_ids))
        names.update((row[0], row[1]) for row in tx.connection.execute(query))
    return names
