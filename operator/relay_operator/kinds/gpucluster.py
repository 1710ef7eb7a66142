"""GpuCluster: replicas of a container behind one endpoint (section 2, "Cluster")."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from heapq import nsmallest
from itertools import islice
from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, Oversized, items_of, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import READY, Column, definition_of, selector
from relay_operator.api.meta import CreateIntent, Model, ObjectKey, Resource, Time
from relay_operator.api.parts import ClusterUpdateStrategy, ReplicaGpu, UpdateType
from relay_operator.api.schema import field_rules, map_by, rules
from relay_operator.api.workload import BILLED_EARLY, FIRST_COLUMNS, LAST_COLUMNS, SAME_ACCOUNT, BlueGreenStatus
from relay_operator.budgets.prices import Capacity
from relay_operator.engine.fit_schema import fit_schema, moment
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.actions import RESTART, START, STOP
from relay_operator.flows.managed.connection import Reached
from relay_operator.flows.managed.resource import (
    Change,
    ExternalResource,
    Found,
    InputRefs,
    Inputs,
    Look,
    Progress,
    SearchResult,
    power,
)
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.by_name import by_name
from relay_operator.kinds.comparison import differing, same_named
from relay_operator.kinds.container import ONE_CREDENTIAL, ContainerSpec, credential, requested, unchangeable
from relay_operator.kinds.replicas import said
from relay_wire.clusters import ClusterCreate, ClusterDetail, ClusterScale, ClusterStatus, ClusterSummary, Replica

MAX_REPLICAS = 1000
SHOWN_REPLICAS = 100
"""Rows of the table in status; the counts beside it are over all replicas."""
_INT32 = 2**31 - 1
"""The scale subresource reads no larger number."""
_GIB = 2**30
_TERMINATED = "terminated"
"""The status of a replica that is gone, which the cloud may still list (section 3)."""
_NAMED_REPLICAS = 5
"""Unhealthy replicas that a condition's message names."""


class GpuClusterSpec(ContainerSpec):
    """What is asked of one cluster."""

    model_config = rules(SAME_ACCOUNT, ONE_CREDENTIAL)

    replicas: int = Field(
        1,
        ge=0,
        le=MAX_REPLICAS,
        json_schema_extra=field_rules(
            ("self >= 1", "a cluster has at least one replica: to stop paying for it, set powerState: Stopped")
        ),
        description="Replicas, at least 1; what `kubectl scale` changes.",
    )
    gpu: ReplicaGpu | None = Field(None, description="Which GPUs each replica has, and how many.")
    update_strategy: ClusterUpdateStrategy | None = Field(
        None, description="What to do when a field changes that the cloud cannot change in place."
    )


class ReplicaStatus(Model):
    """What the cloud says about one replica."""

    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier.")
    status: str = Field(max_length=64, description="The cloud's word for its state.")
    healthy: bool = Field(description="Whether it answers its health checks.")
    gpu_count: int | None = Field(None, ge=0, description="GPUs it has.")
    consecutive_failures: int | None = Field(None, ge=0, description="Health checks that failed in a row.")
    endpoint_url: str | None = Field(None, max_length=2048, description="Where this replica is reached.")
    node_id: str | None = Field(None, max_length=253, description="Node it is on.")
    node_hostname: str | None = Field(None, max_length=253, description="Name of that node.")
    node_region: str | None = Field(None, max_length=128, description="Region of that node.")
    node_location: str | None = Field(None, max_length=128, description="Location of that node.")
    nvlink_enabled: bool | None = Field(None, description="Whether its GPUs are connected by NVLink.")
    ssh_port: int | None = Field(None, ge=0, le=65535, description="Where its SSH server listens.")
    disk_used_gb: int | None = Field(None, ge=0, description="Disk that is used, in whole GiB, rounded up.")
    disk_total_gb: int | None = Field(None, ge=0, description="Disk that there is, in whole GiB.")
    disk_updated_at: Time | None = Field(
        None,
        description="When the node reported that. The operator reads it when the cluster changes, or on "
        "gpurelay.dev/reconcile-at.",
    )
    started_at: Time | None = Field(None, description="When it started.")


_ALIKE = tuple(name for name in ReplicaStatus.model_fields if name in Replica.model_fields)
"""Fields that status and the cloud call the same."""


class GpuClusterStatus(BlueGreenStatus):
    """What the cloud says about one cluster."""

    replicas: int | None = Field(None, ge=0, le=_INT32, description="Replicas that exist.")
    ready_replicas: int | None = Field(None, ge=0, description="Replicas that are healthy.")
    unhealthy_replicas: int | None = Field(None, ge=0, description="Replicas that are not healthy.")
    selector: str | None = Field(None, max_length=512, description="Label selector, for the scale subresource.")
    replica_statuses: list[ReplicaStatus] | None = Field(
        None,
        max_length=SHOWN_REPLICAS,
        json_schema_extra=map_by("id"),
        description=f"The replicas, unhealthy ones first; at most {SHOWN_REPLICAS}.",
    )
    resource_size: str | None = Field(None, max_length=128, description="Size of each replica's machine.")
    tier: str | None = Field(None, max_length=64, description="Tier of capacity it has.")
    disk_size_gb: int | None = Field(None, ge=0, description="Disk of each replica in GB.")


class GpuCluster(Resource[GpuClusterSpec, GpuClusterStatus]):
    """One cluster."""

    kind: Literal["GpuCluster"] = "GpuCluster"


DEFINITION = definition_of(
    GpuCluster,
    "gcl",
    summary="Replicas of a container behind one HTTPS endpoint, scaled by kubectl scale, HPA or KEDA.",
    scaled_by=".spec.replicas",
    columns=(
        *FIRST_COLUMNS,
        Column("Desired", ".spec.replicas", "integer"),
        Column("Healthy", ".status.readyReplicas", "integer"),
        READY,
        *LAST_COLUMNS,
    ),
)


Cluster: TypeAlias = Resource[GpuClusterSpec, GpuClusterStatus]


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """A cluster as a list shows it, and in detail if that was asked for."""

    summary: ClusterSummary
    detail: ClusterDetail | None = None


_PROGRESS: Mapping[str, Progress] = {
    ClusterStatus.RUNNING: Progress.READY,
    ClusterStatus.DEGRADED: Progress.DEGRADED,
    ClusterStatus.STOPPED: Progress.STOPPED,
    ClusterStatus.FAILED: Progress.FAILED,
    ClusterStatus.TERMINATED: Progress.GONE,
}
_SCALABLE: frozenset[str] = frozenset({ClusterStatus.RUNNING, ClusterStatus.DEGRADED})
"""States in which it is scaled; one whose replicas load is only made smaller, which saves money."""


class GpuClusters(ExternalResource[GpuClusterSpec, GpuClusterStatus, SeenCluster]):
    """How a GpuCluster maps to a cluster of the cloud (sections 2 and 4)."""

    definition = DEFINITION
    model = GpuCluster
    told_by_webhooks = frozenset({ClusterStatus.RUNNING, ClusterStatus.DEGRADED, ClusterStatus.FAILED})
    costs_early = BILLED_EARLY

    def __init__(self, lists: SharedLists[Mapping[str, ClusterSummary]]) -> None:
        self._lists = lists

    async def observe(self, cloud: Cloud, cloud_id: str, last: GpuClusterStatus, look: Look) -> SeenCluster:
        """A settled cluster that the shared list shows unchanged costs no request of its own."""
        if look is Look.ROUTINE:
            summary = (await self._lists.recent(cloud, lambda: _listed(cloud))).get(cloud_id)
            if summary is not None and _unchanged(summary, last):
                return SeenCluster(summary)
        # What is brought in is compared with the spec first, so it has to be read whole.
        return await self._seen(cloud, cloud_id) if last.id else await self._detailed(cloud, cloud_id)

    async def _seen(self, cloud: Cloud, cloud_id: str) -> SeenCluster:
        try:
            return await self._detailed(cloud, cloud_id)
        except Oversized:  # with thousands of replicas; it can still be scaled, stopped and ended
            return SeenCluster(await cloud.call(operations.GET_CLUSTER, id=cloud_id))

    async def _detailed(self, cloud: Cloud, cloud_id: str) -> SeenCluster:
        answer = await cloud.call(operations.GET_CLUSTER_DETAIL, id=cloud_id)
        alive = [replica for replica in answer.replicas if replica.status != _TERMINATED]
        detail = answer.model_copy(update={"replicas": alive})
        healthy = sum(replica.healthy for replica in detail.replicas)
        return SeenCluster(ClusterSummary.model_validate({**dict(detail), "active_replicas": healthy}), detail)

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[SeenCluster]:
        listed = await self._lists.fresh(cloud, lambda: _listed(cloud))
        found = by_name(listed.values(), name, _lives)
        return Found(await self._seen(cloud, found.resource.id)) if isinstance(found, Found) else found

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        listed = await self._lists.recent(cloud, lambda: _listed(cloud))
        return {each.id: each.name for each in filter(_lives, listed.values())}

    async def create(self, cloud: Cloud, obj: Cluster, intent: CreateIntent, inputs: Inputs) -> SeenCluster:
        spec = obj.spec
        request = ClusterCreate.model_validate(
            {
                **requested(spec, inputs.ids),
                "name": intent.name,
                "replica_count": spec.replicas,
                "gpu_model_id": inputs.model_id or None,
                "gpus_per_replica": spec.gpu.count if spec.gpu is not None else None,
                "env_vars": dict(inputs.env) or None,
            }
        )
        created = await cloud.call(operations.CREATE_CLUSTER, request)
        return SeenCluster(
            ClusterSummary(
                id=created.id,
                organization_id="",
                name=created.name or intent.name,
                status=created.status,
                replica_count=spec.replicas,
                gpu_model_id=inputs.model_id or None,
            )
        )

    def capacity(self, obj: Cluster, model_id: str) -> Capacity:
        spec = obj.spec
        gpus = spec.gpu.count if spec.gpu is not None else 0
        return Capacity(model_id, gpus, spec.resource_size or "", spec.replicas)

    def grown(self, obj: Cluster, observed: SeenCluster) -> Capacity:
        # A start brings the former number back before another one can be asked for.
        return replace(self.untold(obj, observed), replicas=max(observed.summary.replica_count or 0, obj.spec.replicas))

    def untold(self, obj: Cluster, observed: SeenCluster) -> Capacity:
        """The cloud does not report the price of clusters; a stopped one has that of its next start."""
        summary, detail = observed.summary, observed.detail
        told = {} if detail is None else fit_schema(GpuClusterStatus, _machine(detail))
        status = obj.status.model_copy(update=told)
        model, replicas = summary.gpu_model_id or "", summary.replica_count
        gpus = status.gpu_count if status.gpu_count is not None else self.capacity(obj, model).gpus
        size = status.resource_size or obj.spec.resource_size or ""
        if replicas is None or self.progress(observed) is Progress.STOPPED:
            replicas = obj.spec.replicas
        return Capacity(model, gpus, size, replicas)

    def locked(self, observed: SeenCluster) -> None:
        """None: a cluster's replicas cost what the catalog says when they begin to run."""

    def stop(self, cloud_id: str) -> Change:
        return power(STOP, lambda cloud: cloud.call(operations.STOP_CLUSTER, id=cloud_id))

    def start(self, cloud_id: str) -> Change:
        return power(START, lambda cloud: cloud.call(operations.RESTART_CLUSTER, id=cloud_id))

    def restart(self, cloud_id: str) -> Change:
        return power(RESTART, lambda cloud: cloud.call(operations.RESTART_CLUSTER, id=cloud_id))

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(operations.TERMINATE_CLUSTER, id=cloud_id)

    def immutable(self, obj: Cluster) -> Mapping[str, JsonValue]:
        gpu = obj.spec.gpu
        return {"gpu.count": gpu.count if gpu is not None else None, **unchangeable(obj.spec)}

    def models(self, obj: Cluster) -> tuple[str, ...]:
        return obj.spec.gpu.candidates if obj.spec.gpu is not None else ()

    def input_refs(self, obj: Cluster) -> InputRefs:
        return InputRefs(obj.spec.env or (), obj.spec.env_from or ())

    def references(self, obj: Cluster) -> tuple[ObjectKey, ...]:
        return credential(obj.metadata.namespace, obj.spec)

    def giving(self, obj: Cluster, observed: SeenCluster, ids: Mapping[ObjectKey, str]) -> tuple[Change, ...]:
        """No call changes what a cluster pulls with."""
        return ()

    def differences(self, obj: Cluster, observed: SeenCluster) -> tuple[str, ...]:
        spec, detail = obj.spec, observed.detail
        model = ("gpu.modelIds", self.models(obj), observed.summary.gpu_model_id)
        if detail is None:
            return differing(model)
        return differing(
            model,
            ("image", spec.image, detail.image_url),
            ("gpu.count", spec.gpu.count if spec.gpu is not None else None, detail.gpus_per_replica),
            *same_named(spec, detail, "resource_size", "tier", "container_port", "disk_size_gb"),
        )

    def changes(self, obj: Cluster, observed: SeenCluster, *, running: bool) -> tuple[Change, ...]:
        cloud_id, wanted, has = observed.summary.id, obj.spec.replicas, observed.summary.replica_count
        if not running or has is None or has == wanted:
            return ()
        grows = wanted > has
        if observed.summary.status not in (_SCALABLE if grows else _SCALABLE | self.costs_early):
            return ()
        body = ClusterScale(replica_count=wanted)

        async def send(cloud: Cloud) -> None:
            await cloud.call(operations.SCALE_CLUSTER, body, id=cloud_id)

        return (Change("scale", Reason.SCALING, send, to=str(wanted), pays=grows),)

    def drain(self, obj: Cluster) -> timedelta | None:
        strategy = obj.spec.update_strategy
        if strategy is None or strategy.type is not UpdateType.BLUE_GREEN:
            return None
        return timedelta(seconds=strategy.drain_seconds)

    def progress(self, observed: SeenCluster) -> Progress:
        return _PROGRESS.get(observed.summary.status, Progress.PENDING)

    def identity(self, observed: SeenCluster) -> tuple[str, str]:
        return observed.summary.id, observed.summary.name

    def detail(self, observed: SeenCluster) -> str:
        summary, detail = observed.summary, observed.detail
        if detail is None:
            return said(summary.status, summary.active_replicas, summary.replica_count, None)
        ailing = (f"{replica.id} {replica.status}" for replica in detail.replicas if not replica.healthy)
        named = ", ".join(islice(ailing, _NAMED_REPLICAS))
        which = f"; not healthy: {named}" if named else ""
        return said(detail.status, summary.active_replicas, summary.replica_count, detail.status_reason, which)

    def reached(self, observed: SeenCluster) -> Reached | None:
        detail = observed.detail
        return None if detail is None else Reached(detail.endpoint_url or "", detail.id, detail.deploy_token or "")

    def told(self, obj: Cluster, observed: SeenCluster) -> Mapping[str, object]:
        summary, detail = observed.summary, observed.detail
        told: dict[str, object] = {
            "state": summary.status,
            "replicas": summary.replica_count,
            "ready_replicas": max(summary.active_replicas or 0, 0),
            "selector": selector("cluster", obj.metadata),
            "endpoint_url": summary.endpoint_url,
            "gpu_model_id": summary.gpu_model_id,
        }
        return told if detail is None else told | _detail_fields(detail)


def clusters(parts: Parts) -> GpuClusters:
    """With a listing that all settled clusters share."""
    return GpuClusters(SharedLists(parts.settings.poll_settled_seconds / 2, parts.engine.clock))


async def _listed(cloud: Cloud) -> Mapping[str, ClusterSummary]:
    """All clusters of the organization, by id. Raises CloudError, also if it could read only some of them."""
    return {cluster.id: cluster for cluster in await items_of(cloud, operations.LIST_CLUSTERS, limit=200)}


def _lives(summary: ClusterSummary) -> bool:
    return summary.status != ClusterStatus.TERMINATED


def _unchanged(summary: ClusterSummary, last: GpuClusterStatus) -> bool:
    settled = summary.status in {ClusterStatus.RUNNING, ClusterStatus.STOPPED}
    seen = (summary.status, summary.replica_count, summary.active_replicas or 0)
    return settled and seen == (last.state, last.replicas, last.ready_replicas or 0)


def _detail_fields(detail: ClusterDetail) -> dict[str, object]:
    rows = {_shown_id(replica): replica for replica in detail.replicas}  # one of each: the list is a map by id
    shown = nsmallest(SHOWN_REPLICAS, rows, key=lambda shown_id: (rows[shown_id].healthy, shown_id))
    return {
        "status_reason": detail.status_reason,
        "unhealthy_replicas": sum(not replica.healthy for replica in detail.replicas),
        "replica_statuses": [_replica_status(rows[shown_id]) for shown_id in shown],
        "tier": detail.tier,
        "disk_size_gb": detail.disk_size_gb,
        **_machine(detail),
    }


def _machine(detail: ClusterDetail) -> dict[str, object]:
    """What the price of a replica depends on; apart from the rest, which goes through all replicas."""
    return {"gpu_count": detail.gpus_per_replica, "resource_size": detail.resource_size}


def _shown_id(replica: Replica) -> str:
    return str(fit_schema(ReplicaStatus, {"id": replica.id})["id"])


def _replica_status(replica: Replica) -> ReplicaStatus:
    told: dict[str, object] = {
        **{name: getattr(replica, name) for name in _ALIKE},
        "disk_used_gb": None if replica.disk_used_bytes is None else -(-replica.disk_used_bytes // _GIB),
        "disk_total_gb": None if replica.disk_total_bytes is None else replica.disk_total_bytes // _GIB,
        "disk_updated_at": moment(replica.disk_updated_at),
        "started_at": moment(replica.started_at),
    }
    return ReplicaStatus.model_validate(fit_schema(ReplicaStatus, told))
