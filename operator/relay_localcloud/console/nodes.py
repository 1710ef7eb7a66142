"""The page of nodes: what sits on which GPU, and taking nodes down and bringing them back."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import RowMapping, func, select

from relay_localcloud.capacity.catalog import GPU_MODELS, LOCATIONS
from relay_localcloud.capacity.claims import claims
from relay_localcloud.capacity.nodes import nodes
from relay_localcloud.clusters.clusters import clusters
from relay_localcloud.console.forms import button
from relay_localcloud.console.markup import Html, element, fragment
from relay_localcloud.console.parts import identifier, nothing, pages
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.requested import Requested
from relay_localcloud.console.wording import counted, pill
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.workloads import workloads

PATH: Final = "/console/nodes"
ON_A_PAGE: Final = 24
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


def content(reading: Reading) -> Html:
    """Every node in the order in which they came, or one."""
    requested, node = reading.requested, nodes.c
    after, only = requested.number("after"), requested.word("node")
    query = select(nodes).where(node.removed_at.is_(None)).order_by(node.sequence).limit(ON_A_PAGE + 1)
    if after is not None:
        query = query.where(node.sequence > after)
    if only is not None:
        query = query.where(node.id == only)
    found = list(reading.tx.connection.execute(query).mappings())
    shown = found[:ON_A_PAGE]
    holders = _holders(reading.tx, [row["id"] for row in shown])
    names = _names(reading.tx, {workload for units in holders.values() for workload in units.values()})
    cards = [_card(requested, row, holders.get(row["id"], {}), names) for row in shown]
    everything = element("p", element("a", "All nodes", href=requested.to(PATH))) if only else None
    further = shown[-1]["sequence"] if len(found) > ON_A_PAGE else None
    return fragment(
        element("p", sentence(reading.tx), class_="lead", aria_live="polite"),
        everything,
        element("ul", cards, class_="nodes") if cards else nothing(_EMPTY),
        pages(requested, "after", further),
    )


_EMPTY: Final = (
    'No node is here. Bring one in: POST /_localcloud/nodes with {"gpuModelId": "h100", "gpuCount": 8}; '
    "one that was removed does not come back."
)


def _card(requested: Requested, row: RowMapping, units: Mapping[int, str], names: Mapping[str, str]) -> Html:
    model, place = GPU_MODELS.get(row["gpu_model_id"]), LOCATIONS.get(row["location"])
    where = place.name if place else row["location"]
    owner = element("small", f"of {row['organization_id']} alone") if row["organization_id"] else None
    return element(
        "li",
        element(
            "div",
            element("h2", model.name if model else row["gpu_model_id"]),
            pill("online" if row["reporting"] else "offline"),
            class_="head",
        ),
        element(
            "p",
            identifier(row["id"]),
            element("span", f"{where} · {row['free_count']} of {row['gpu_count']} GPUs free"),
            owner,
        ),
        _grid(row["gpu_count"], units, names),
        _holders_of(requested, units, names),
        _switch(requested, row),
        id=row["id"],
    )


def _switch(requested: Requested, row: RowMapping) -> Html:
    action, about = f"{PATH}/{row['id']}/reporting", row["id"]
    if row["reporting"]:
        return button(requested, action, "Take down", about=about, reporting="no")
    return button(requested, action, "Bring back", about=about, class_="primary", reporting="yes")


def _grid(count: int, units: Mapping[int, str], names: Mapping[str, str]) -> Html:
    colours = {workload: number % _COLOURS for number, workload in enumerate(dict.fromkeys(units.values()))}
    cells = [_unit(number, units.get(number), colours, names) for number in range(min(count, _UNITS_SHOWN))]
    more = element("li", f"+ {count - _UNITS_SHOWN:,}", class_="more") if count > _UNITS_SHOWN else None
    return element("ol", cells, more, class_="units", aria_label="GPUs")


def _unit(number: int, workload: str | None, colours: Mapping[str, int], names: Mapping[str, str]) -> Html:
    if workload is None:
        return element("li", element("span", str(number)), element("span", " free", class_="unseen"), class_="free")
    spoken = element("span", f" taken by {names.get(workload, workload)}", class_="unseen")
    return element("li", element("span", str(number)), spoken, class_=f"taken colour-{colours[workload]}")


def _holders_of(requested: Requested, units: Mapping[int, str], names: Mapping[str, str]) -> Html:
    taken = Counter(units.values())
    if not taken:
        return element("p", "Nothing sits on it.", class_="empty")
    items = [
        element(
            "li",
            element("span", class_=f"swatch colour-{number % _COLOURS}", aria_hidden="true"),
            element("a", names.get(workload, workload), href=requested.to("/console/workloads", find=workload)),
            f" {counted(count, 'GPU')}",
        )
        for number, (workload, count) in enumerate(taken.items())
    ]
    return element("ul", items, class_="holders")


def _holders(tx: Tx, node_ids: Sequence[str]) -> dict[str, dict[int, str]]:
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
