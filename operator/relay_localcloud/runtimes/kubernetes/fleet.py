"""The Nodes of clusters as nodes of the cloud: how they join, fall silent, return and are cordoned."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import UniqueConstraint, inspect, select

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.nodes import NewNode
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.providers import node_events
from relay_localcloud.runtimes.kubernetes.nodes import NodeFact, NodeSeen, NodeSilent

_log = logging.getLogger(__name__)

_GIB: Final = 1024**3


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A Node, by its cluster and name, with its node in the cloud."""

    node_id: str
    cluster: str
    name: str


KNOWN: Final = Rows(KnownNode, "cluster_nodes", UniqueConstraint("cluster", "name"), key=("node_id",))


def look(tx: Tx, cluster: str, facts: Collection[NodeFact], *, is_region: bool = False, ahead: int = 0) -> None:
    """Update the nodes of a cluster from the facts; a known node without a `NodeSeen` is silent.

    `is_region`: the cluster's name is the region of its nodes, whatever their labels say. `ahead` is how far the
    cloud's clock is ahead of the machines'.
    """
    seen = {fact.machine.name: fact for fact in facts if isinstance(fact, NodeSeen)}
    since = {fact.name: fact.since + ahead for fact in facts if isinstance(fact, NodeSilent) and fact.since is not None}
    known = {node.name: node for node in KNOWN.all(tx, cluster=cluster)}
    for name, fact in seen.items():
        if name in known:
            _reports(tx, known[name], fact)
        elif fact.machine.gpu_count:
            _came(tx, cluster, fact, is_region=is_region)
    for name in known.keys() - seen.keys():
        _is_silent(tx, known[name], since.get(name))


def look_at_none_but(tx: Tx, clusters: Collection[str]) -> None:
    """Take the nodes of all other clusters for silent."""
    for cluster in {node.cluster for node in KNOWN.all(tx)} - set(clusters):
        look(tx, cluster, ())


def known_as(tx: Tx, node_id: str | None) -> KnownNode | None:
    """The Node behind a node of the cloud; None if there is none."""
    return None if node_id is None else KNOWN.find(tx, node_id=node_id)


def models(tx: Tx, cluster: str) -> Mapping[str, str]:
    """The models of the Nodes of a cluster that are nodes of the cloud, by name; without removed ones."""
    node = nodes.nodes.c
    query = select(KNOWN.columns["name"], node.gpu_model_id).join(nodes.nodes, node.id == KNOWN.columns["node_id"])
    query = query.where(KNOWN.columns["cluster"] == cluster, node.removed_at.is_(None))
    return dict(tx.connection.execute(query).all())


def held(tx: Tx, cluster: str) -> frozenset[str]:
    """The Nodes of a cluster that are to be cordoned, by name: their owners hold them, and have not removed them."""
    node = nodes.nodes.c
    query = select(KNOWN.columns["name"]).join(nodes.nodes, node.id == KNOWN.columns["node_id"])
    query = query.where(KNOWN.columns["cluster"] == cluster, node.removed_at.is_(None))
    return frozenset(tx.connection.execute(query.where(node.hold.is_not(None), node.hold != nodes.CORDONED)).scalars())


def name_cluster(tx: Tx, cluster: str) -> None:
    """Give the nodes of a state from before clusters had names to this cluster, which was the only one."""
    if inspect(tx.connection).has_table("kubernetes_nodes"):
        rows = tx.connection.exec_driver_sql("SELECT node_id, name FROM kubernetes_nodes").fetchall()
        for node_id, name in rows:
            KNOWN.insert(tx, node_id=node_id, cluster=cluster, name=name)
        tx.connection.exec_driver_sql("DROP TABLE kubernetes_nodes")


def name_cordons(tx: Tx) -> None:
    """Tell cordons from the holds of owners in a state from before they had a name of their own."""
    there = inspect(tx.connection)
    for known in filter(there.has_table, ("kubernetes_nodes", KNOWN.table.name)):
        if any(column["name"] == "cordoned" for column in there.get_columns(known)):
            held = f"hold = 'draining' AND id IN (SELECT node_id FROM {known} WHERE cordoned)"  # noqa: S608 - our names
            tx.connection.exec_driver_sql(f"UPDATE nodes SET hold = '{nodes.CORDONED}' WHERE {held}")  # noqa: S608
            tx.connection.exec_driver_sql(f"ALTER TABLE {known} DROP COLUMN cordoned")


def _came(tx: Tx, cluster: str, fact: NodeSeen, *, is_region: bool) -> None:
    machine = fact.machine
    labelled = (fact.region, fact.location) if not is_region else ()
    region = next(filter(None, labelled), cluster)
    location, ram_gb = fact.location or region, machine.memory_bytes // _GIB
    node_id = nodes.add_node(tx, NewNode(fact.gpu_model_id, machine.gpu_count, location, region, ram_gb))
    KNOWN.insert(tx, node_id=node_id, cluster=cluster, name=machine.name)
    node_events.came(tx, fact.gpu_model_id)
    node_events.cordoned(tx, node_id, is_cordoned=fact.cordoned)


def _reports(tx: Tx, known: KnownNode, fact: NodeSeen) -> None:
    node = nodes.get(tx, known.node_id)
    if node.removed_at is not None:
        return
    if not node.reporting:
        node_events.returned(tx, node.id)
    is_of_model = node_events.has_model(tx, node.id, fact.gpu_model_id)
    node_events.offers(tx, node.id, fact.machine.gpu_count, fact.machine.memory_bytes // _GIB)
    is_new = node_events.cordoned(tx, node.id, is_cordoned=fact.cordoned or not is_of_model)
    if is_new and not is_of_model:
        words = "%s: its labels say %s, but what is on it was sold as %s: nothing starts there until that is terminated"
        _log.warning(words, known.name, fact.gpu_model_id, node.gpu_model_id)
    if is_new and fact.unlabelled is not None:
        _log.warning("%s: %s What is on it goes on, and nothing starts there", known.name, fact.unlabelled)


def _is_silent(tx: Tx, known: KnownNode, since: int | None) -> None:
    node = nodes.get(tx, known.node_id)
    if node.reporting and node.removed_at is None:
        node_events.fell_silent(tx, node.id, since)
