"""Who may log in: a key of the organization whose running pod, VM or replica has the user name as its id."""

from base64 import b64decode
from dataclasses import dataclass
from typing import Final

from relay_localcloud.clusters import clusters
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.serving import rows as serving
from relay_localcloud.workloads.ssh_keys import KEYS
from relay_localcloud.workloads.workloads import POD, WORKLOADS
from relay_wire.pods import PodStatus

_RUNNING: Final = (ReplicaState.STARTING, ReplicaState.HEALTHY, ReplicaState.UNHEALTHY, ReplicaState.RECOVERING)


@dataclass(frozen=True, slots=True)
class Place:
    """A running pod, VM or replica, and its organization."""

    id: str
    noun: str
    organization_id: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admitted login: where to, and by which of the organization's keys."""

    place: Place
    key_id: str


def place(tx: Tx, user: str) -> Place | None:
    """The running pod, VM, or replica of a cluster or serving deployment with this id; None if there is none."""
    workload = WORKLOADS.find(tx, id=user, terminated_at=None)
    if workload is not None:
        noun = "pod" if workload.kind == POD else "VM"
        running = workload.status is PodStatus.RUNNING
        return Place(workload.id, noun, workload.organization_id) if running else None
    organization_id = _organization_of_replica(tx, user)
    return None if organization_id is None else Place(user, "replica", organization_id)


def admitted(tx: Tx, user: str, key: bytes) -> Admitted | None:
    """The login that this public key, as SSH sends it, opens; None alike if nothing runs or the key is unknown."""
    there = place(tx, user)
    if there is None:
        return None
    keys = KEYS.all(tx, organization_id=there.organization_id)
    key_id = next((row.id for row in keys if _blob(row.public_key) == key), None)
    return None if key_id is None else Admitted(there, key_id)


def is_key_of(tx: Tx, there: Place, key_id: str, key: bytes) -> bool:
    """Whether the place's organization still has this public key under this id."""
    row = KEYS.find(tx, id=key_id, organization_id=there.organization_id)
    return row is not None and _blob(row.public_key) == key


def _organization_of_replica(tx: Tx, replica_id: str) -> str | None:
    replica = clusters.REPLICA_ROWS.find(tx, id=replica_id, terminated_at=None)
    if replica is not None and replica.status in _RUNNING:
        cluster = clusters.CLUSTERS.find(tx, id=replica.group_id)
        return None if cluster is None else cluster.organization_id
    replica = serving.REPLICA_ROWS.find(tx, id=replica_id, terminated_at=None)
    if replica is not None and replica.status in _RUNNING:
        deployment = serving.find(tx, replica.group_id)
        return None if deployment is None else deployment.organization_id
    return None


def _blob(public_key: str) -> bytes:
    """The decoded key of an OpenSSH line, without type and comment; empty if the text has none."""
    try:
        return b64decode(public_key.split()[1])
    except (IndexError, ValueError):  # such as a letter that is not in Base64, which a registration may have
        return b""
