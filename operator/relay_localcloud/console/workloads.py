"""The page of workloads: pods, VMs and clusters with their replicas."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from sqlalchemy import RowMapping, func, or_, select

from relay_localcloud.capacity.catalog import GPU_MODELS
from relay_localcloud.clusters.clusters import clusters, replicas
from relay_localcloud.console.reading import Reading
from relay_localcloud.console.wording import TONES, counted
from relay_localcloud.workloads.records import PRODUCTION, endpoint_url
from relay_localcloud.workloads.workloads import VM, workloads

_ON_A_PAGE: Final = 25
_STATES: Final = ("running", "deploying", "provisioning", "degraded", "interrupted", "stopped", "failed", "terminated")
_FILTERS: Final[Mapping[str | None, str]] = {None: "All live", **{word: word for word in _STATES}}
_REPLICAS_SHOWN: Final = 50
_ORDER: Final = list(TONES)


def tallied(reading: Reading) -> Mapping[str, int]:
    """How many live pods, VMs and clusters of an organization, or of all, there are in each state."""
    found: Counter[str] = Counter()
    for table in (workloads, clusters):
        query = select(table.c.status, func.count()).where(table.c.terminated_at.is_(None)).group_by(table.c.status)
        if reading.requested.organization_id is not None:
            query = query.where(table.c.organization_id == reading.requested.organization_id)
        found.update({row[0]: row[1] for row in reading.tx.connection.execute(query)})
    return dict(sorted(found.items(), key=lambda entry: _ORDER.index(entry[0]) if entry[0] in _ORDER else len(_ORDER)))


def newest(reading: Reading, count: int) -> list[dict[str, object]]:
    """The newest live workloads of every kind."""
    parts = [reading.newest(source, count, source.c.terminated_at.is_(None)) for source in (workloads, clusters)]
    found = sorted((row for part in parts for row in part), key=lambda row: int(row["created_at"]), reverse=True)
    return [_shown(reading, row) for row in found[:count]]


def content(reading: Reading) -> dict[str, object]:
    """Pods, VMs and clusters, newest first, those of one state where asked."""
    status, find = reading.requested.word("status"), reading.requested.word("find")
    parts = []
    for title, source, key in (("Pods and VMs", workloads, "pods"), ("Clusters", clusters, "clusters")):
        conditions = [source.c.terminated_at.is_(None) if status is None else source.c.status == status]
        if find is not None:
            conditions.append(or_(source.c.id == find, source.c.name == find))
        part = reading.page(source, _ON_A_PAGE, *conditions, place=f"{key}-before", status=status)
        parts.append((title, key, replace(part, rows=[_shown(reading, row) for row in part.rows])))
    empty = f"No workload has the name or id {find}." if find else f"No workload is {status}." if status else None
    return {"states": tallied(reading), "filters": _FILTERS, "parts": parts, "empty": empty}


def _shown(reading: Reading, row: RowMapping) -> dict[str, object]:
    """A workload of any kind: its row, and what is said of it."""
    return {**row, **(_cluster(reading, row) if "replica_count" in row else _pod_or_vm(reading, row))}


def _pod_or_vm(reading: Reading, row: RowMapping) -> dict[str, object]:
    kind = "VM" if row["kind"] == VM else "Pod"
    label = f"{row['http_port']}-{row['label']}" if row["capability_tier"] == PRODUCTION else row["label"]
    return {
        "kind": kind,
        "status": "provisioning" if kind == "VM" and row["status"] == "deploying" else row["status"],
        "replicas": None,
        "price": row["price_per_hour_cents"],
        "access": "public" if row["public"] else "needs a key",
        **_gpus(row, row["gpu_count"]),
        **_host(reading, row, label),
    }


def _cluster(reading: Reading, row: RowMapping) -> dict[str, object]:
    replica = replicas.c
    query = select(replica.id, replica.status, replica.node_id).where(
        replica.cluster_id == row["id"], replica.terminated_at.is_(None)
    )
    ended = row["terminated_at"] is not None
    query = query.order_by(replica.sequence).limit(0 if ended else _REPLICAS_SHOWN + 1)
    members = reading.tx.connection.execute(query).all()
    return {
        "kind": "Cluster",
        "replicas": counted(row["replica_count"], "replica"),
        "members": members[:_REPLICAS_SHOWN],
        "more_members": len(members) > _REPLICAS_SHOWN,
        "price": row["replica_price_cents"],
        "access": "needs a key",
        **_gpus(row, row["gpus_per_replica"]),
        **_host(reading, row, row["label"]),
    }


def _gpus(row: RowMapping, count: int) -> dict[str, str | None]:
    model = GPU_MODELS.get(row["gpu_model_id"] or "")
    if model is None or not count:
        return {"gpus": f"CPU, {row['resource_size'] or 'small'}", "gpus_title": None}
    return {"gpus": f"{count} x {model.id}", "gpus_title": model.name}


def _host(reading: Reading, row: RowMapping, label: str) -> dict[str, str | None]:
    ended = row["terminated_at"] is not None
    return {"host": None if ended else urlsplit(endpoint_url(label, reading.cloud.gateway_url)).netloc}
