"""Snapshots of VMs' disks as VolumeSnapshots: taken, reported, and deleted. Level-triggered, each by its own name.

A row of the runtime's own outlives the snapshot's, so that a VolumeSnapshot is deleted only if this cloud ended it.
"""

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NoReturn

from relay_kube.errors import AlreadyExists, KubeError
from relay_kube.kube import Kube, ResourceType
from relay_kube.mirror import Mirror
from relay_localcloud.kernel.disk import Unwritable
from relay_localcloud.kernel.instants import DAY
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.runtimes.kubernetes.discovery import Discovery
from relay_localcloud.runtimes.kubernetes.facts import START_WITHIN
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, labels_of, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.observed import Metadata, Observed
from relay_localcloud.runtimes.kubernetes.tenants import Manifest
from relay_localcloud.workloads import snapshots

_log = logging.getLogger(__name__)

VOLUME_SNAPSHOTS: Final = ResourceType("volumesnapshots", "snapshot.storage.k8s.io")
LOOK_SECONDS: Final = 10.0
"""The interval of comparing everything, which catches what only time changes, and what failed."""
KEPT: Final = DAY
"""How long an ended snapshot is remembered: requests of a killed process may reach the cluster later."""
_VANISHED: Final = "Its VolumeSnapshot was deleted from the cluster."


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot that a cluster has or is to have."""

    id: str
    vm_id: str
    organization_id: str
    cluster: str
    was_seen: bool = False
    ended_at: int | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The namespace and name of its VolumeSnapshot."""
        return namespace_of(self.organization_id), name_of(self.id)


HELD: Final = Rows(HeldSnapshot, "kubernetes_snapshots", key=("id",))


class _Error(Observed):
    message: str = ""


class _Status(Observed):
    ready_to_use: bool = False
    error: _Error | None = None


class VolumeSnapshot(Observed):
    """What the cluster says of a snapshot."""

    metadata: Metadata
    status: _Status = _Status()


def drop(tx: Tx, snapshot_id: str) -> None:
    """Record that a snapshot has ended."""
    HELD.change_all(tx, {"ended_at": tx.now}, id=snapshot_id, ended_at=None)


def of(held: HeldSnapshot, instance: str) -> Manifest:
    """The VolumeSnapshot of a VM's disk, of the default class of the disk's driver."""
    (namespace, name), labels = held.place, dict(labels_of(instance, held.vm_id, held.vm_id))
    return {
        "apiVersion": f"{VOLUME_SNAPSHOTS.group}/{VOLUME_SNAPSHOTS.version}",
        "kind": "VolumeSnapshot",
        "metadata": {"name": name, "namespace": namespace, "labels": {**labels}},
        "spec": {"source": {"persistentVolumeClaimName": name_of(held.vm_id)}},
    }


def look(tx: Tx, held: HeldSnapshot, there: VolumeSnapshot | None) -> bool:
    """Report what the cluster shows of a snapshot; whether a request is to be sent: to delete it, or to take it."""
    if held.ended_at is not None:
        if there is None and held.ended_at <= tx.now - KEPT:
            HELD.remove(tx, id=held.id)
        return there is not None
    if there is None:
        if held.was_seen:
            snapshots.fail(tx, held.id, _VANISHED)
        return snapshots.is_awaited(tx, held.id)
    if not held.was_seen:
        HELD.change(tx, held.id, was_seen=True)
    if there.status.ready_to_use:
        snapshots.is_ready(tx, held.id)
    elif there.status.error is not None:
        snapshots.fail(tx, held.id, there.status.error.message, after=START_WITHIN)
    return False


class VolumeSnapshots:
    """The snapshots of a cluster's VMs, if it has the kind VolumeSnapshot."""

    def __init__(self, store: Store, kube: Kube, cluster: str, instance: str) -> None:
        self._store, self._kube = store, kube
        self._cluster, self._instance = cluster, instance
        self._mirror = Mirror(kube, VOLUME_SNAPSHOTS, VolumeSnapshot.model_validate, lambda _: self.changed())
        self._discovery = Discovery(kube, (VOLUME_SNAPSHOTS,))
        self._wake = asyncio.Event()

    @property
    def are_offered(self) -> bool:
        """Whether the cluster can take snapshots now, as far as this cloud knows."""
        return self._discovery.are_served and self._mirror.is_listed

    def changed(self) -> None:
        """Compare all snapshots with the cluster's."""
        self._wake.set()

    async def run(self) -> NoReturn:
        """Follow the snapshots from when the cluster has the kind, until cancelled."""
        await self._discovery.run(self._mirror.run, self._follow)

    async def _follow(self) -> NoReturn:
        await self._mirror.listed()
        while True:
            self._wake.clear()
            try:
                for held in list(self._due()):
                    await self._send(held)
            except Unwritable as error:
                _log.warning("What the cluster shows of snapshots waits for the disk: %s", error)
            try:
                await asyncio.wait_for(self._wake.wait(), LOOK_SECONDS)
            except TimeoutError:
                continue

    def _due(self) -> Iterator[HeldSnapshot]:
        with self._store.transaction() as tx:
            for held in HELD.all(tx, cluster=self._cluster):
                if look(tx, held, self._mirror.get(*held.place)):
                    yield held

    async def _send(self, held: HeldSnapshot) -> None:
        namespace, name = held.place
        try:
            if held.ended_at is not None:
                which = f"metadata.name={name}"
                await self._kube.delete_labelled(VOLUME_SNAPSHOTS, namespace, which, INSTANCE, self._instance)
            else:
                self._mirror.wrote(await self._kube.create(VOLUME_SNAPSHOTS, namespace, of(held, self._instance)))
        except AlreadyExists:
            return
        except KubeError as error:
            _log.info("%s: %s; it is tried again", held.id, error)
            with self._store.transaction() as tx:
                snapshots.fail(tx, held.id, str(error), after=START_WITHIN)
