"""What the runtime keeps about each holder of GPUs: what is wanted, its current start, and what was seen of that."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Any, Final, Protocol

from sqlalchemy import select

from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.refusals import ApiError
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx, read_meta, write_meta
from relay_localcloud.runtimes.kubernetes import volume_snapshots
from relay_localcloud.runtimes.kubernetes.facts import Exited
from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of, organization_of
from relay_localcloud.runtimes.kubernetes.volume_snapshots import HELD
from relay_localcloud.runtimes.runtime import INSTANCE, Expected, Facts, Labelled, Noun, Wanted

KEPT: Final = DAY
"""How long a holder is remembered after its end: requests of a killed process may reach the cluster later."""


class Standing(StrEnum):
    """What a holder is to have on the cluster."""

    RUN = "run"
    REST = "rest"  # its volume only
    END = "end"  # nothing


@dataclass(frozen=True, slots=True)
class Holding:
    """What is kept about a holder; `start` counts its starts from 1, and the fields after it are about the last one."""

    id: str
    standing: Standing
    start: int
    since: int  # when the cluster began to refuse what is wanted, at every turn since then; 0 if it does not
    uid: str | None  # its Pod's, from when the Pod is first seen until it is seen to leave
    exits: tuple[Any, ...]  # the last ones; `exits_of` reads them
    rejected_since: int | None = None  # when a kubelet that reports began to end its Pods before they run
    swept_at: int | None = None  # when the last of an ended holder was deleted
    organization_id: str | None = None  # the owner; None until objects of the holder may be on a cluster
    cluster: str | None = None  # the cluster whose objects these are; None as long as there are none
    had_pod: bool = False  # a Pod of it was seen there, so its volume is to be there, too; not once that was lost


HOLDINGS: Final = Rows(Holding, "kubernetes_holdings", key=("id",))
_STANDING: Final[Mapping[Wanted, Standing]] = {
    Wanted.STARTED: Standing.RUN,
    Wanted.RESTARTED: Standing.RUN,
    Wanted.STOPPED: Standing.REST,
    Wanted.GONE: Standing.REST,
    Wanted.DELETED: Standing.END,
}


class Clusters(Protocol):
    """All clusters of the cloud, as a transaction needs to know them."""

    def changed(self, holder_id: str) -> None:
        """Give a holder a turn on every cluster."""
        ...

    def nodes_changed(self) -> None:
        """Compare the nodes of the cloud with the Nodes of every cluster."""
        ...

    def snapshots_changed(self) -> None:
        """Compare the snapshots of VMs with those of every cluster."""
        ...

    def may_run(self, cluster: str, namespace: str, name: str) -> bool:
        """Whether a Pod of this cloud may exist on a cluster."""
        ...

    def labelled(self) -> Iterable[Labelled]:
        """The Pods of every cluster that bear the mark of this cloud."""
        ...


@dataclass(frozen=True, slots=True)
class OnKubernetes:
    """Records what is wanted, and tells the clusters of it after the commit; a `Runtime`.

    `lacking` says for each noun that it does not support why, and what to use instead.
    """

    tx: Tx
    clusters: Clusters
    lacking: Mapping[Noun, str]

    @property
    def reports_by_itself(self) -> bool:
        """True: it observes what runs."""
        return True

    def lacks(self, noun: Noun) -> str | None:
        """Why the cluster or this runtime does not support the noun; None if they do."""
        return self.lacking.get(noun)

    def want(self, facts: Facts, holder_id: str, wanted: Wanted) -> Expected:
        """Record what is wanted; when it becomes true is unknown."""
        standing = _STANDING[wanted]
        known = HOLDINGS.find(self.tx, id=holder_id)
        start = 0 if known is None else known.start
        same = known is not None and known.standing is standing is not Standing.RUN
        if not same:
            HOLDINGS.put(
                self.tx,
                id=holder_id,
                standing=standing,
                start=start + (standing is Standing.RUN),
                since=0,
                uid=None,
                exits=(),
                organization_id=None if known is None else known.organization_id,
                cluster=None if known is None else known.cluster,
                had_pod=known is not None and known.had_pod,
            )
        self.tx.after_commit(lambda: self.clusters.changed(holder_id))
        return Expected()

    def lingers(self, holder_id: str) -> bool:
        """Whether the holder's Pod may exist; a turn releases its GPUs once it does not."""
        known = HOLDINGS.find(self.tx, id=holder_id)
        if known is None or known.cluster is None or known.organization_id is None:
            return False
        return self.clusters.may_run(known.cluster, namespace_of(known.organization_id), name_of(holder_id))

    def holds_changed(self) -> None:
        """Have the Nodes cordoned and uncordoned as their owners want it."""
        self.tx.after_commit(self.clusters.nodes_changed)

    def orphans(self) -> Sequence[Labelled]:
        """The Pods of holders that are not recorded here."""
        known = starts(self.tx)
        return [each for each in self.clusters.labelled() if each.id not in known]

    def end_orphan(self, holder_id: str) -> bool:
        """Record its holder as one that ended, so that all of it is deleted as of any other."""
        for orphan in self.orphans():
            if orphan.id == holder_id:
                there = {"organization_id": organization_of(orphan.namespace), "cluster": orphan.cluster}
                seen = {"start": orphan.start, "since": 0, "uid": None, "exits": ()}
                HOLDINGS.insert(self.tx, id=holder_id, standing=Standing.END, **seen, **there)
                self.tx.after_commit(lambda: self.clusters.changed(holder_id))
                return True
        return False

    def take_snapshot(self, due: str, snapshot_id: str, vm_id: str) -> None:
        """Record that the cluster of the VM's disk is to have it."""
        holding = HOLDINGS.find(self.tx, id=vm_id)
        if holding is None or holding.cluster is None or holding.organization_id is None:
            raise ApiError(409, "The VM has no disk yet.")
        where = {"organization_id": holding.organization_id, "cluster": holding.cluster}
        HELD.insert(self.tx, id=snapshot_id, vm_id=vm_id, **where)
        self.tx.after_commit(self.clusters.snapshots_changed)

    def drop_snapshot(self, due: str, snapshot_id: str) -> None:
        """Record that no cluster is to have it."""
        volume_snapshots.drop(self.tx, snapshot_id)
        self.tx.after_commit(self.clusters.snapshots_changed)

    def boot_log(self, script: str | None) -> Sequence[tuple[str, str]]:
        """Empty: the log of a VM is what its guest prints."""
        return []


def exits_of(holding: Holding) -> list[Exited]:
    """The last exits of the current start, the oldest first."""
    return [Exited(*each) for each in holding.exits]


def saw(
    tx: Tx, holding: Holding, start: int, uid: str | None, exits: Sequence[Exited], rejected_since: int | None
) -> None:
    """Record what a Pod shows of a start.

    `uid` is None for a Pod that leaves: another one is to follow.
    """
    kept = tuple(list(astuple(each)) for each in exits)
    seen = {"start": start, "uid": uid, "exits": kept, "rejected_since": rejected_since, "had_pod": True}
    if any(getattr(holding, name) != value for name, value in seen.items()):
        HOLDINGS.change(tx, holding.id, **seen)


def settle(tx: Tx, holding: Holding, organization_id: str, cluster: str) -> Holding:
    """Record that objects of a holder may be on a cluster from now on; returns the changed row."""
    if (holding.organization_id, holding.cluster) == (organization_id, cluster):
        return holding
    return HOLDINGS.changed(tx, holding, organization_id=organization_id, cluster=cluster)


def left(tx: Tx, holder_id: str, cluster: str) -> None:
    """Record that no object of a holder is left on a cluster, so that it may run on another."""
    gone = {"organization_id": None, "cluster": None, "since": 0, "uid": None, "exits": (), "had_pod": False}
    HOLDINGS.change_all(tx, gone, id=holder_id, cluster=cluster)


def name_cluster(tx: Tx, cluster: str) -> None:
    """Give the holders of a state from before clusters had names to this cluster, which was the only one."""
    columns = HOLDINGS.table.c
    nameless = columns.cluster.is_(None) & columns.organization_id.is_not(None)
    tx.connection.execute(HOLDINGS.table.update().where(nameless).values(cluster=cluster))


def starts(tx: Tx) -> dict[str, int]:
    """The last start of each holder."""
    columns = HOLDINGS.table.c
    return {row.id: row.start for row in tx.connection.execute(select(columns.id, columns.start))}


def organizations(tx: Tx, cluster: str) -> set[str]:
    """The organizations that have something on a cluster."""
    there = HOLDINGS.all(tx, HOLDINGS.columns["standing"] != Standing.END.value, cluster=cluster)
    return {each.organization_id for each in there if each.organization_id is not None}


def swept(tx: Tx, holder_id: str) -> None:
    """Record that nothing is left of a holder, if it ended."""
    HOLDINGS.change_all(tx, {"swept_at": tx.now}, id=holder_id, standing=Standing.END, swept_at=None)


def forget(tx: Tx) -> None:
    """Drop the holdings of which nothing has been left for KEPT."""
    swept_at = HOLDINGS.table.c.swept_at
    tx.connection.execute(HOLDINGS.table.delete().where(swept_at <= tx.now - KEPT))


def instance_of(tx: Tx) -> str:
    """The id that marks this cloud's objects on a cluster: random, created at the first call, kept in the state."""
    kept = read_meta(tx.connection, INSTANCE)
    if kept is None:
        kept = secrets.token_hex(8)
        write_meta(tx.connection, INSTANCE, kept)
    return kept
