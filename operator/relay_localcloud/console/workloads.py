"""The page of workloads: pods, VMs, and clusters and deployments with their replicas."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import Column, ColumnElement, RowMapping, Table, func, or_, select

from relay_localcloud.capacity.catalog import CPU_SIZES, GPU_MODELS, VM_TEMPLATES, CpuSize
from relay_localcloud.clusters.clusters import clusters, replicas
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import TONES, counted
from relay_localcloud.identity import organizations
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.serving import rows as serving
from relay_localcloud.serving.rows import DEPLOYMENTS, deployments
from relay_localcloud.workloads.records import PRODUCTION, endpoint_url
from relay_localcloud.workloads.ssh_keys import KEYS
from relay_localcloud.workloads.workloads import SHOWN_STATUS, VM, WORKLOADS, workloads

_ON_A_PAGE: Final = 25
_STATES: Final = ("running", "deploying", "provisioning", "degraded", "interrupted", "stopped", "failed", "terminated")
_FILTERS: Final[Mapping[str | None, str]] = {None: "All live", **{word: word for word in _STATES}}
_REPLICAS_SHOWN: Final = 50
_KEYS_OFFERED: Final = 100
_CREATABLE: Final[Mapping[str | None, str]] = {
    "pods": "Create a pod",
    "vms": "Create a VM",
    "clusters": "Create a cluster",
}
"""The labels of forms by the last part of their addresses."""
_ORDER: Final = list(TONES)


def tallied(reading: Reading) -> Mapping[str, int]:
    """The number of live workloads in each state, of the selected organization or of all."""
    found: Counter[str] = Counter()
    for kind in KINDS:
        query = select(kind.status, func.count()).where(kind.ended.is_(None)).group_by(kind.status)
        if reading.requested.organization_id is not None:
            query = query.where(kind.table.c.organization_id == reading.requested.organization_id)
        found.update({row[0]: row[1] for row in reading.tx.connection.execute(query)})
    return dict(sorted(found.items(), key=lambda entry: _ORDER.index(entry[0]) if entry[0] in _ORDER else len(_ORDER)))


def newest(reading: Reading, count: int) -> list[dict[str, object]]:
    """The newest live workloads of every kind."""
    parts = [(kind, reading.newest(kind.table, count, kind.ended.is_(None))) for kind in KINDS]
    found = sorted(
        ((kind, row) for kind, rows in parts for row in rows), key=lambda each: int(each[1]["created_at"]), reverse=True
    )
    return [kind.shown(reading, row) for kind, row in found[:count]]


def content(reading: Reading) -> dict[str, object]:
    """Workloads of every kind, newest first, of one state or with one name or id if the request selects that."""
    status, find = reading.requested.word("status"), reading.requested.word("find")
    creating = reading.requested.word("create")
    empty = (
        f"No workload here has the name or id {find}." if find else f"No workload here is {status}." if status else None
    )
    parts = []
    for kind in KINDS:
        conditions = [kind.ended.is_(None) if status is None else kind.status == status]
        if find is not None:
            conditions.append(or_(kind.table.c.id == find, kind.name == find))
        part = reading.page(kind.table, _ON_A_PAGE, *conditions, place=f"{kind.key}-before", status=status, find=find)
        shown = replace(part, rows=[kind.shown(reading, row) for row in part.rows])
        parts.append((kind, shown, empty or kind.hint))
    return {
        "states": tallied(reading),
        "filters": _FILTERS,
        "parts": parts,
        "organization_id": reading.organization_id,
        "whose": organizations.name_of(reading.tx, reading.organization_id),
        "creatable": _CREATABLE,
        "creating": creating if creating in _CREATABLE else None,
        "models": {model.id: model.name for model in GPU_MODELS.values()},
        "sizes": {size.resource_size: _size(size) for size in CPU_SIZES.values()},
        "templates": {template.id: template.name for template in VM_TEMPLATES.values()},
        "keys": _keys(reading) if creating == "vms" else {},
    }


def _size(size: CpuSize) -> str:
    return f"{size.resource_size}: {size.vcpu} CPUs, {size.ram_mb // 1024} GiB"


def _keys(reading: Reading) -> dict[str, str]:
    """The names of the newest SSH keys by id, for a form's choice."""
    newest = KEYS.page(reading.tx, None, _KEYS_OFFERED, organization_id=reading.organization_id)
    return {key.id: key.name for key in newest}


def _pod_or_vm(reading: Reading, row: RowMapping) -> dict[str, object]:
    kind = "VM" if row["kind"] == VM else "Pod"
    label = f"{row['http_port']}-{row['label']}" if row["capability_tier"] == PRODUCTION else row["label"]
    return {
        **row,
        "kind": kind,
        "status": WORKLOADS.of(row.values()).shown_status,
        "replicas": None,
        "price": row["price_per_hour_cents"],
        "access": "public" if row["public"] else "needs a key",
        **_gpus(row["gpu_model_id"], row["gpu_count"], row["resource_size"]),
        **_host(reading, row, label),
    }


def _cluster(reading: Reading, row: RowMapping) -> dict[str, object]:
    ended = row["terminated_at"] is not None
    return {
        **row,
        "kind": "Cluster",
        "replicas": counted(row["replica_count"], "replica"),
        **_members(reading, replicas, replicas.c.cluster_id, row["id"], 0 if ended else _REPLICAS_SHOWN + 1),
        "price": row["replica_price_cents"],
        "access": "needs a key",
        **_gpus(row["gpu_model_id"], row["gpus_per_replica"], row["resource_size"]),
        **_host(reading, row, row["label"]),
    }


def _deployment(reading: Reading, row: RowMapping) -> dict[str, object]:
    """A deployment, which has no endpoint of its own: requests for its model reach it."""
    deployment, replica = DEPLOYMENTS.of(row.values()), serving.replicas.c
    of_it = (replica.deployment_id == deployment.id, replica.terminated_at.is_(None))
    healthy = select(func.count()).where(*of_it, replica.status == ReplicaState.HEALTHY)
    return {
        **row,
        "kind": "Deployment",
        "name": deployment.name,
        "replicas": counted(deployment.wanted, "replica"),
        "replica_count": deployment.wanted,
        "active_replicas": reading.tx.connection.execute(healthy).scalar_one(),
        **_members(reading, serving.replicas, replica.deployment_id, deployment.id, _REPLICAS_SHOWN + 1),
        "price": deployment.replica_price_cents,
        "access": None,
        "host": None,
        **_gpus(deployment.gpu_model_id, deployment.spec.gpu_count_per_replica, None),
    }


def _members(reading: Reading, table: Table, group: Column[str], group_id: str, count: int) -> dict[str, object]:
    """The first live replicas of a cluster or deployment."""
    replica = table.c
    query = select(replica.id, replica.status, replica.node_id).where(
        group == group_id, replica.terminated_at.is_(None)
    )
    members = reading.tx.connection.execute(query.order_by(replica.sequence).limit(count)).all()
    return {"members": members[:_REPLICAS_SHOWN], "more_members": len(members) > _REPLICAS_SHOWN}


def _gpus(gpu_model_id: str | None, count: int, size: str | None) -> dict[str, str | None]:
    model = GPU_MODELS.get(gpu_model_id or "")
    if model is None or not count:
        return {"gpus": f"CPU, {size or 'small'}", "gpus_title": None}
    return {"gpus": f"{count} x {model.id}", "gpus_title": model.name}


def _host(reading: Reading, row: RowMapping, label: str) -> dict[str, str | None]:
    ended = row["terminated_at"] is not None
    return {"host": None if ended else urlsplit(endpoint_url(label, reading.cloud.gateway_url)).netloc}


@dataclass(frozen=True)
class Kind:
    """The workloads of one table: their names, columns and paths, and how to show a row."""

    key: str
    title: str
    hint: str
    table: Table
    status: ColumnElement[str]  # as people read it
    ended: Column[int]
    name: Column[str]
    shown: Callable[[Reading, RowMapping], dict[str, object]]
    path: str  # of the API, before the id
    asked: str  # the column with the body of its create


_PODS_HINT: Final = (
    "Nothing here yet. Create a pod above or with POST /v1/pods, or apply a GpuPod to a cluster whose operator uses "
    "this cloud."
)
_CLUSTERS_HINT: Final = "No cluster yet. Create one above or with POST /v1/orgs/{orgId}/clusters/create."
_DEPLOYMENTS_HINT: Final = "No deployment yet. Create one with POST /v1/serving/deployments."

KINDS: Final = (
    Kind(
        key="pods",
        title="Pods and VMs",
        hint=_PODS_HINT,
        table=workloads,
        status=SHOWN_STATUS,
        ended=workloads.c.terminated_at,
        name=workloads.c.name,
        shown=_pod_or_vm,
        path="/v1/vms",
        asked="request",
    ),
    Kind(
        key="clusters",
        title="Clusters",
        hint=_CLUSTERS_HINT,
        table=clusters,
        status=clusters.c.status,
        ended=clusters.c.terminated_at,
        name=clusters.c.name,
        shown=_cluster,
        path="/v1/clusters",
        asked="request",
    ),
    Kind(
        key="deployments",
        title="Deployments",
        hint=_DEPLOYMENTS_HINT,
        table=deployments,
        status=deployments.c.status,
        ended=deployments.c.gone_at,
        name=deployments.c.public_model_id,
        shown=_deployment,
        path="/v1/serving/deployments",
        asked="spec",
    ),
)
