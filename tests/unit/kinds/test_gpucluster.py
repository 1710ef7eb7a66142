"""What the status of a GpuCluster tells of its replicas."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud, Oversized
from relay_client.answers import MAX_VALUES
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed import predicates
from relay_operator.flows.managed.resource import Look, NotSeen
from relay_operator.kinds.gpucluster import (
    SHOWN_REPLICAS,
    GpuCluster,
    GpuClusters,
    GpuClusterStatus,
    ReplicaStatus,
    SeenCluster,
)
from relay_wire.clusters import ClusterDetail, ClusterSummary
from tests.unit.client.scripted import Reply, scripted_server

if TYPE_CHECKING:
    from pydantic import JsonValue

GIB = 2**30
SUMMARY: dict[str, JsonValue] = {"id": "cl-1", "organizationId": "org-1", "name": "llm", "status": "running"}
DETAIL: dict[str, JsonValue] = SUMMARY | {
    "gpusPerReplica": 1,
    "resourceSize": "gpu-1x",
    "replicaCount": 1,
    "tier": "standard",
    "allowFallback": True,
    "diskSizeGb": 50,
    "privileged": False,
    "createdAt": "2026-01-01T00:00:00Z",
    "updatedAt": "2026-01-01T00:00:00Z",
}
REPLICA: dict[str, JsonValue] = {
    "id": "rep-1",
    "gpuCount": 1,
    "status": "healthy",
    "healthy": True,
    "nvlinkEnabled": True,
    "createdAt": "2026-01-01T00:00:00Z",
}


def told(**more: JsonValue) -> ReplicaStatus:
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": {"image": "i"}})
    detail = ClusterDetail.model_validate(DETAIL | {"replicas": [REPLICA | more]})
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    shown = kind.told(obj, SeenCluster(ClusterSummary.model_validate(SUMMARY), detail))["replica_statuses"]
    assert isinstance(shown, list)
    (replica,) = shown
    assert isinstance(replica, ReplicaStatus)
    return replica


def test_a_replica_is_told_with_its_node_nvlink_ssh_port_and_disk() -> None:
    node: dict[str, JsonValue] = {"nodeId": "n-1", "nodeHostname": "rack1", "nodeRegion": "eu", "nodeLocation": "ams1"}
    disk: dict[str, JsonValue] = {"diskTotalBytes": 50 * GIB, "diskUpdatedAt": "2026-01-01T01:00:00Z"}
    replica = told(**node, **disk, sshPort=22, diskUsedBytes=3 * GIB)
    shown = replica.model_dump(mode="json", exclude_none=True)
    assert shown.items() >= node.items()
    assert (shown["nvlinkEnabled"], shown["sshPort"]) == (True, 22)
    assert (shown["diskUsedGb"], shown["diskTotalGb"], shown["diskUpdatedAt"]) == (3, 50, "2026-01-01T01:00:00Z")


def test_of_many_replicas_only_those_that_status_shows_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    made, whole = list[object](), ReplicaStatus.model_validate

    def noted(row: dict[str, JsonValue]) -> ReplicaStatus:
        made.append(row["id"])
        return whole(row)

    monkeypatch.setattr(ReplicaStatus, "model_validate", noted)
    ids = [f"rep-{number:03}" for number in reversed(range(3 * SHOWN_REPLICAS))]
    long = [f"{'a' * 300}{end}" for end in "bc"]  # the same, as far as status shows them
    rows: list[JsonValue] = [REPLICA | {"id": each, "healthy": not each.endswith("7")} for each in (*ids, *long)]
    again = REPLICA | {"id": ids[0], "healthy": False, "nodeId": "n-2"}
    detail = ClusterDetail.model_validate(DETAIL | {"replicas": [*rows, again], "gpusPerReplica": 3})
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": {"image": "i"}})
    seen = SeenCluster(ClusterSummary.model_validate(SUMMARY), detail)
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    status = kind.status(obj, seen)
    ailing = [*(each for each in sorted(ids) if each.endswith("7")), ids[0]]
    healthy = [f"{'a' * 252}…", *(each for each in sorted(ids) if each not in ailing)]
    shown = status.replica_statuses or []
    assert [row.id for row in shown] == [*ailing, *healthy][:SHOWN_REPLICAS] == made
    assert (shown[len(ailing) - 1].node_id, status.unhealthy_replicas) == ("n-2", len(ailing))
    capacity = kind.untold(obj, seen)
    assert (capacity.gpus, capacity.size, len(made)) == (3, "gpu-1x", SHOWN_REPLICAS)
    assert kind.detail(seen).endswith(
        f"; not healthy: {', '.join(f'rep-2{tens}7 healthy' for tens in (9, 8, 7, 6, 5))}"
    )


@pytest.mark.parametrize(("used", "shown"), [(0, 0), (1, 1), (GIB, 1), (GIB + 1, 2), (None, None)])
def test_a_disk_that_is_used_in_part_counts_as_a_whole_gib(used: int | None, shown: int | None) -> None:
    assert told(diskUsedBytes=used).disk_used_gb == shown


async def test_a_replica_that_is_terminated_counts_as_nothing() -> None:
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": {"image": "i"}})
    gone: dict[str, JsonValue] = {"id": "rep-0", "status": "terminated", "healthy": False}
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(DETAIL | {"replicas": [REPLICA | gone, REPLICA]}).encode()))
        seen = await kind.observe(cloud, "cl-1", GpuClusterStatus(), Look.EXACT)
    status = kind.status(obj, seen)
    assert (status.unhealthy_replicas, [row.id for row in status.replica_statuses or ()]) == (0, ["rep-1"])
    assert kind.detail(seen) == "the cloud says running, 1 of 1 replicas healthy"


async def test_one_with_more_replicas_than_can_be_read_is_seen_without_them() -> None:
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": {"image": "i"}})
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    many: list[JsonValue] = [REPLICA] * (MAX_VALUES // len(REPLICA))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        detailed, summary = (Reply(body=json.dumps(body).encode()) for body in (DETAIL | {"replicas": many}, SUMMARY))
        server.will(detailed, summary)
        seen = await kind.observe(cloud, "cl-1", GpuClusterStatus(id="cl-1"), Look.EXACT)
        server.will(detailed, summary)
        with pytest.raises(Oversized):
            await kind.observe(cloud, "cl-1", GpuClusterStatus(), Look.EXACT)
        del server.seen[2:]
    assert server.targets == ["GET /v1/clusters/cl-1/detail", "GET /v1/clusters/cl-1"]
    assert kind.status(obj, seen).state == "running"


@pytest.mark.parametrize(
    ("status", "stopped"), [("provisioning", True), ("running", True), ("stopping", False), ("stopped", False)]
)
def test_one_whose_replicas_load_can_be_stopped_since_the_cloud_bills_them(status: str, stopped: bool) -> None:
    spec: JsonValue = {"image": "i", "powerState": "Stopped"}
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": spec})
    seen = SeenCluster(ClusterSummary.model_validate(SUMMARY | {"status": status, "replicaCount": 2}))
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    changes = predicates.changes_of(kind, obj, seen, datetime.now(UTC))
    assert [change.name for change in changes] == (["stop"] if stopped else [])


@pytest.mark.parametrize(
    ("status", "asked", "priced", "reserved"),
    [("running", 3, 2, 3), ("running", 1, 2, 2), ("stopped", 3, 3, 3), ("stopped", 1, 1, 2)],
)
def test_the_price_of_a_stopped_one_is_that_of_its_next_start(
    status: str, asked: int, priced: int, reserved: int
) -> None:
    spec: JsonValue = {"image": "i", "replicas": asked, "gpu": {"modelId": "l40s", "count": 1}}
    obj = GpuCluster.model_validate({"metadata": {"name": "llm", "namespace": "a"}, "spec": spec})
    seen = SeenCluster(ClusterSummary.model_validate(SUMMARY | {"status": status, "replicaCount": 2}))
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    assert (kind.untold(obj, seen).replicas, kind.grown(obj, seen).replicas) == (priced, reserved)


async def test_all_who_search_at_once_share_a_list_and_the_sweep_that_follows_has_it_too() -> None:
    kind = GpuClusters(SharedLists(60.0, time.monotonic))
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps({"items": [SUMMARY]}).encode()))
        searches = (kind.find(cloud, f"mine-{n}", UnclaimedIds()) for n in range(5))
        assert await asyncio.gather(*searches) == [NotSeen()] * 5
        assert await kind.living(cloud, UnclaimedIds()) == {"cl-1": "llm"}
        assert len(server.seen) == 2
