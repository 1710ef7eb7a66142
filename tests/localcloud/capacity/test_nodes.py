"""The nodes of the control interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.workloads import new_pod, own_node, running_pod, set_node, status

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server


async def test_a_node_is_shown_with_who_sits_on_it(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization, "l40s", count=2, location="sjc1")
    pod = await new_pod(organization, gpuModelId="l40s")
    [node] = [node for node in (await server.ok("GET", "/nodes"))["items"] if node["id"] == node_id]
    assert node == {
        "id": node_id,
        "gpuModelId": "l40s",
        "gpuCount": 2,
        "location": "sjc1",
        "region": "us-west",
        "ramGb": 768,
        "status": "online",
        "reporting": True,
        "infinibandAgent": True,
        "organizationId": organization.id,
        "providerId": None,
        "nodePool": "community",
        "units": [
            {"id": f"{node_id}-gpu0", "workloadId": pod["id"]},
            {"id": f"{node_id}-gpu1", "workloadId": None},
        ],
    }


async def test_a_node_goes_offline_and_comes_back(organization: Organization) -> None:
    node_id = await own_node(organization)
    assert (await set_node(organization, node_id, reporting=False))["status"] == "offline"
    assert (await set_node(organization, node_id, reporting=True))["status"] == "online"


async def test_a_removed_node_is_gone_for_good(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    pod_id = await running_pod(organization)
    shown = await set_node(organization, node_id, removed=True)
    assert (shown["status"], {unit["workloadId"] for unit in shown["units"]}) == ("removed", {None})
    assert await status(organization, pod_id) == "terminated"
    assert node_id not in {node["id"] for node in (await server.ok("GET", "/nodes"))["items"]}
    assert (await server.control("PATCH", f"/nodes/{node_id}", {"reporting": True})).refusal[0] == 409


async def test_reporting_twice_the_same_changes_nothing(server: Server, organization: Organization) -> None:
    node_id = await own_node(organization)
    pod_id = await running_pod(organization)
    await set_node(organization, node_id, reporting=False)
    await server.advance(100)
    await set_node(organization, node_id, reporting=False)
    await server.advance(80)
    assert await status(organization, pod_id) == "interrupted", "the grace runs from when it fell silent"


@pytest.mark.parametrize(
    ("body", "answered"),
    [
        ({"gpuModelId": "h9000", "gpuCount": 8}, 400),
        ({"gpuModelId": "h100"}, 400),
        ({"gpuModelId": "h100", "gpuCount": 0}, 400),
        ({"gpuModelId": "h100", "gpuCount": 8, "orgId": "none"}, 404),
        ({"gpuModelId": "h100", "gpuCount": 8, "unknown": 1}, 400),
    ],
)
async def test_bad_nodes_are_refused(server: Server, body: dict[str, object], answered: int) -> None:
    assert (await server.control("POST", "/nodes", body)).refusal[0] == answered


async def test_an_unknown_node_is_not_found(server: Server) -> None:
    assert (await server.control("PATCH", "/nodes/none", {"reporting": False})).refusal[0] == 404


async def test_events_need_a_workload_and_a_state_in_which_they_can_happen(
    server: Server, organization: Organization
) -> None:
    await own_node(organization)
    pod = await new_pod(organization)
    path = f"/workloads/{pod['id']}/events"
    assert (await server.control("POST", path, {"event": "exit"})).refusal[0] == 409
    assert (await server.control("POST", path, {"event": "unhealthy"})).refusal[0] == 400
    assert (await server.control("POST", path, {"event": "explode"})).refusal[0] == 400
    assert (await server.control("POST", "/workloads/none/events", {"event": "exit"})).refusal[0] == 404
