"""The Nodes of a cluster as nodes of the cloud: how they join, fall silent, return and are cordoned."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import node_events
from relay_localcloud.runtimes.kubernetes.nodes import NodeFact, NodeSeen

SOMEWHERE: Final = "cluster"
"""The location and region of a Node without labels for them."""
CORDONED: Final = "draining"
"""The hold of a node whose Node is cordoned: nothing starts there."""
_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A Node, by its name, with its node in the cloud and whether that is held because the Node is cordoned."""

    name: str
    node_id: str
    cordoned: bool


KNOWN: Final = Rows(KnownNode, "kubernetes_nodes", key=("name",))


def look(tx: Tx, facts: Iterable[NodeFact]) -> None:
    """Update the cloud's nodes from the facts; a known node without a `NodeSeen` is silent."""
    seen = {fact.machine.name: fact for fact in facts if isinstance(fact, NodeSeen)}
    known = {node.name: node for node in KNOWN.all(tx)}
    for name, fact in seen.items():
        if name in known:
            _reports(tx, known[name], fact)
        elif fact.machine.gpu_count:
            _came(tx, fact)
    for name in known.keys() - seen.keys():
        _is_silent(tx, known[name])


def name_of_node(tx: Tx, node_id: str) -> str | None:
    """The name of the Node behind a node of the cloud; None if there is none."""
    known = KNOWN.find(tx, node_id=node_id)
    return None if known is None else known.name


def _came(tx: Tx, fact: NodeSeen) -> None:
    machine = fact.machine
    place = fact.location or fact.region or SOMEWHERE
    ram_gb = machine.memory_bytes // _GIB
    node_id = nodes.add_node(tx, NewNode(fact.gpu_model_id, machine.gpu_count, place, fact.region or place, ram_gb))
    KNOWN.insert(tx, name=machine.name, node_id=node_id, cordoned=False)
    node_events.came(tx, fact.gpu_model_id)
    _cordon(tx, KnownNode(machine.name, node_id, cordoned=False), fact)


def _reports(tx: Tx, known: KnownNode, fact: NodeSeen) -> None:
    node = nodes.get(tx, known.node_id)
    if node.removed_at is not None:
        return
    if not node.reporting:
        node_events.returned(tx, node.id)
    node_events.offers(tx, node.id, fact.machine.gpu_count, fact.machine.memory_bytes // _GIB)
    _cordon(tx, known, fact)


def _cordon(tx: Tx, known: KnownNode, fact: NodeSeen) -> None:
    """Hold the node of a cordoned Node until it is uncordoned; a hold that its owner set stays."""
    hold = nodes.get(tx, known.node_id).hold
    if fact.cordoned and hold is None:
        nodes.set_standing(tx, known.node_id, hold=CORDONED)
        KNOWN.change(tx, known.name, cordoned=True)
    elif known.cordoned and not fact.cordoned:
        KNOWN.change(tx, known.name, cordoned=False)
        if hold == CORDONED:
            node_events.set_by_owner(tx, known.node_id, "online")


def _is_silent(tx: Tx, known: KnownNode) -> None:
    node = nodes.get(tx, known.node_id)
    if node.reporting and node.removed_at is None:
        node_events.fell_silent(tx, node.id)
