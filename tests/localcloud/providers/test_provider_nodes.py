"""A provider's nodes: who sees them, and what each status does to placement and to what sits on them (section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support import clusters
from tests.localcloud.support.provider import community_node, node_status, provider_nodes, set_status
from tests.localcloud.support.workloads import (
    GRACE,
    UNTIL_RUNNING,
    act,
    balance,
    emails,
    free_gpus,
    own_node,
    running_pod,
    set_node,
    status,
    stopped_pod,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

NODES = "/v1/orgs/{org}/provider/nodes"
HOLDS = pytest.mark.parametrize("hold", ["draining", "maintenance"])


async def ids(provider: Organization, query: str = "") -> list[str]:
    return [node["id"] for node in await provider_nodes(provider, query)]


async def refused(provider: Organization, node_id: str, body: object) -> tuple[int, str]:
    return (await provider.call("PATCH", f"{NODES}/{node_id}", body)).refusal


async def available(organization: Organization) -> list[Any]:
    """What is available of H100s in both modes: total, free, largest, and the nodes."""
    items = (await organization.ok("GET", "/v1/gpu-availability"))["items"]
    shown = next(item for item in items if item["gpuModelId"] == "h100")
    return [
        (mode["totalGpus"], mode["freeGpus"], mode["maxPlaceableGpus"], [node["nodeId"] for node in mode["nodes"]])
        for mode in (shown["vm"], shown["cluster"])
    ]


async def vm_on(organization: Organization, node_id: str) -> tuple[int, str]:
    """How a VM that names its node is answered, when it is refused."""
    body = {"name": "named", "gpuModelId": "h100", "gpuCount": 1, "nodeId": node_id}
    return (await organization.call("POST", "/v1/orgs/{org}/vms/create", body)).refusal


async def test_nodes_are_filtered_by_status_and_without_removed_ones(provider: Organization) -> None:
    online, silent, draining, maintained, removed = [await community_node(provider) for _ in range(5)]
    await set_node(provider, silent, reporting=False)
    for node_id, wanted in ((draining, "draining"), (maintained, "maintenance"), (removed, "removed")):
        assert (await set_status(provider, node_id, wanted))["status"] == wanted
    assert await ids(provider) == [online, silent, draining, maintained]
    assert await ids(provider, "?includeRemoved=false") == [online, silent, draining, maintained]
    assert await ids(provider, "?includeRemoved=true") == [online, silent, draining, maintained, removed]
    assert await ids(provider, "?status=online") == [online]
    assert await ids(provider, "?status=offline") == [silent]
    assert await ids(provider, "?status=draining&includeRemoved=true") == [draining]
    assert await ids(provider, "?status=maintenance") == [maintained]
    assert await ids(provider, "?status=removed") == [removed], "whoever asks for removed ones gets them"


async def test_a_provider_sees_how_many_use_a_node_and_not_who(
    provider: Organization, organization: Organization
) -> None:
    node_id, idle = await community_node(provider, gpuCount=4), await community_node(provider, gpuCount=1)
    pod_id = await running_pod(organization, gpuCount=3)
    (busy, free) = await provider_nodes(provider)
    assert [(node["id"], node["workloads"]) for node in (busy, free)] == [(node_id, 1), (idle, 0)]
    assert pod_id not in f"{busy}"
    assert (await set_status(provider, node_id, "draining"))["workloads"] == 1
    await act(organization, pod_id, "terminate")
    assert [node["workloads"] for node in await provider_nodes(provider)] == [0, 0]


@pytest.mark.parametrize(
    "query",
    ["?status=gone", "?status=", "?status=ONLINE", "?includeRemoved=perhaps", "?includeRemoved=", "?includeRemoved=1"],
)
async def test_a_filter_that_makes_no_sense_is_400(provider: Organization, query: str) -> None:
    assert (await provider.call("GET", NODES + query)).refusal == (400, "invalid_request")


@HOLDS
async def test_a_hold_takes_the_capacity_away_and_leaves_what_runs(
    provider: Organization, organization: Organization, hold: str
) -> None:
    node_id = await community_node(provider, gpuCount=4)
    pod_id = await running_pod(organization)
    assert (await set_status(provider, node_id, hold))["status"] == hold
    assert await free_gpus(organization) == 0
    assert await available(organization) == [(0, 0, 0, []), (0, 0, 0, [])]
    pods = {"image": "app:1", "gpuModelId": "h100"}
    refusal = (await organization.call("POST", "/v1/pods", pods)).refusal
    assert refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert await vm_on(organization, node_id) == (503, "NODE_AT_CAPACITY")
    await provider.server.advance(GRACE + 10)
    assert await status(organization, pod_id) == "running"
    assert (await act(organization, pod_id, "restart"))["status"] == "running", "recreated in place, not placed anew"
    assert (await set_status(provider, node_id, "online"))["status"] == "online"
    assert await available(organization) == [(4, 3, 2, [node_id]), (4, 3, 3, [node_id])]


@HOLDS
async def test_what_was_stopped_does_not_start_on_a_held_node(
    provider: Organization, organization: Organization, hold: str
) -> None:
    node_id = await community_node(provider)
    pod_id = await stopped_pod(organization)
    await set_status(provider, node_id, hold)
    restart = f"/v1/vms/{pod_id}/restart"
    assert (await organization.call("POST", restart)).refusal == (409, "POD_NODE_OFFLINE")
    assert await status(organization, pod_id) == "stopped"
    await set_status(provider, node_id, "online")
    assert (await organization.call("POST", restart)).status == 200


@HOLDS
async def test_a_start_that_is_under_way_goes_on(provider: Organization, organization: Organization, hold: str) -> None:
    node_id = await community_node(provider)
    pod = await organization.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    await set_status(provider, node_id, hold)
    await provider.server.advance(UNTIL_RUNNING)
    assert await status(organization, pod["id"]) == "running"


@HOLDS
async def test_silence_does_not_end_a_hold_and_interrupts_as_ever(
    provider: Organization, organization: Organization, hold: str
) -> None:
    node_id = await community_node(provider)
    pod_id = await running_pod(organization)
    await set_status(provider, node_id, hold)
    await set_node(provider, node_id, reporting=False)
    await provider.server.advance(GRACE)
    assert (await node_status(provider, node_id), await status(organization, pod_id)) == (hold, "interrupted")
    assert (await set_node(provider, node_id, reporting=True))["status"] == hold
    assert (await node_status(provider, node_id), await status(organization, pod_id)) == (hold, "running")
    assert await free_gpus(organization) == 0


@HOLDS
async def test_online_clears_the_hold_and_silence_shows_again(
    provider: Organization, organization: Organization, hold: str
) -> None:
    node_id = await community_node(provider)
    await set_status(provider, node_id, hold)
    await set_node(provider, node_id, reporting=False)
    await set_status(provider, node_id, "online")
    await provider.server.advance(1)
    assert await node_status(provider, node_id) == "offline"
    assert await free_gpus(organization) == 0
    await set_node(provider, node_id, reporting=True)
    assert await node_status(provider, node_id) == "online"
    assert await free_gpus(organization) == 2


async def test_one_hold_follows_another(provider: Organization) -> None:
    node_id = await community_node(provider)
    for wanted in ("draining", "maintenance", "draining", "draining", "online", "online"):
        assert (await set_status(provider, node_id, wanted))["status"] == wanted
        assert await node_status(provider, node_id) == wanted


@HOLDS
async def test_replicas_stay_and_new_ones_wait_until_the_hold_ends(
    provider: Organization, organization: Organization, hold: str
) -> None:
    held = await community_node(provider, gpuCount=4)
    cluster_id = await clusters.running(organization, replicaCount=2, gpusPerReplica=1)
    await set_status(provider, held, hold)
    other = await community_node(provider, gpuCount=1)
    await clusters.act(organization, cluster_id, "scale", {"replicaCount": 4})
    await provider.server.advance(GRACE)
    placed = [replica["nodeId"] for replica in await clusters.replicas(organization, cluster_id)]
    assert (placed, await clusters.status(organization, cluster_id)) == ([held, held, other], "degraded")
    await set_status(provider, held, "online")
    await provider.server.advance(UNTIL_RUNNING)
    placed = [replica["nodeId"] for replica in await clusters.replicas(organization, cluster_id)]
    assert (placed, await clusters.status(organization, cluster_id)) == ([held, held, other, held], "running")


async def test_removal_frees_the_node_and_tells_before_it_deletes(
    provider: Organization, organization: Organization, server: Server
) -> None:
    node_id = await community_node(provider, gpuCount=4)
    running, stopped = await running_pod(organization), await stopped_pod(organization)
    cluster_id = await clusters.running(organization, gpusPerReplica=1)
    elsewhere = await community_node(provider, gpuCount=1)
    shown = await set_status(provider, node_id, "removed")
    assert (shown["status"], len(shown["gpus"])) == ("removed", 4)
    assert [await status(organization, pod_id) for pod_id in (running, stopped)] == ["terminated", "terminated"]
    told = [mail["body"] for mail in await emails(organization)]
    assert [pod_id in body for pod_id, body in zip((running, stopped), told, strict=True)] == [True, True]
    assert all("removed from the platform" in body for body in told)
    await server.advance(UNTIL_RUNNING)
    assert [replica["nodeId"] for replica in await clusters.replicas(organization, cluster_id)] == [elsewhere]
    spent = (await balance(organization))["availableCents"]
    await clusters.act(organization, cluster_id, "terminate")
    await server.advance(10 * 3600)
    assert (await balance(organization))["availableCents"] == spent, "nothing on it is billed any more"
    assert await available(organization) == [(1, 1, 1, [elsewhere]), (1, 1, 1, [elsewhere])]


async def test_removal_is_final_and_may_be_repeated(provider: Organization) -> None:
    node_id = await community_node(provider)
    first = await set_status(provider, node_id, "removed")
    assert await set_status(provider, node_id, "removed") == first
    for wanted in ("online", "draining", "maintenance"):
        assert await refused(provider, node_id, {"status": wanted}) == (404, "not_found")
    assert await refused(provider, node_id, {"status": "offline"}) == (400, "invalid_request")
    assert (await provider.server.control("PATCH", f"/nodes/{node_id}", {"reporting": True})).refusal[0] == 409
    assert await node_status(provider, node_id) == "removed"


async def test_a_held_node_can_be_removed_and_so_can_a_silent_one(
    provider: Organization, organization: Organization
) -> None:
    held, silent = await community_node(provider, gpuCount=1), await community_node(provider, gpuCount=1)
    pods = [await running_pod(organization) for _ in range(2)]
    await set_status(provider, held, "draining")
    await set_node(provider, silent, reporting=False)
    await provider.server.advance(GRACE)
    for node_id in (held, silent):
        await set_status(provider, node_id, "removed")
    assert [await status(organization, pod_id) for pod_id in pods] == ["terminated", "terminated"]
    assert len(await emails(organization)) == 2
    assert await ids(provider) == []


@pytest.mark.parametrize(
    "body", [{}, {"status": None}, {"status": "gone"}, {"status": ""}, {"status": 1}, {"status": ["online"]}, []]
)
async def test_a_status_that_is_none_is_400(provider: Organization, body: object) -> None:
    node_id = await community_node(provider)
    assert await refused(provider, node_id, body) == (400, "invalid_request")
    assert await node_status(provider, node_id) == "online"


async def test_offline_is_not_for_a_provider_to_set(provider: Organization) -> None:
    node_id = await community_node(provider)
    assert await refused(provider, node_id, {"status": "offline"}) == (400, "invalid_request")
    assert await node_status(provider, node_id) == "online"


async def test_nodes_of_others_are_not_found(provider: Organization, organization: Organization) -> None:
    node_id = await community_node(provider)
    platforms = (await provider.server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 1}))["id"]
    for other in (node_id, platforms, "none", "%00", "x" * 5000):
        assert (await organization.call("PATCH", f"{NODES}/{other}", {"status": "removed"})).refusal[0] == 404
    path = f"/v1/orgs/{provider.id}/provider/nodes"
    assert (await organization.call("GET", path)).refusal == (403, "forbidden")
    assert (await organization.call("PATCH", f"{path}/{node_id}", {"status": "removed"})).refusal == (403, "forbidden")
    assert await ids(organization) == []
    assert await node_status(provider, node_id) == "online"


async def test_a_node_that_is_an_organizations_alone_is_its_own_to_manage(organization: Organization) -> None:
    node_id = await own_node(organization, count=2)
    assert await ids(organization) == [node_id]
    assert (await set_status(organization, node_id, "maintenance"))["nodePool"] == "community"
    assert (await set_status(organization, node_id, "removed"))["status"] == "removed"
