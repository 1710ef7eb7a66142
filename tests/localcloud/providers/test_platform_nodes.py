"""The platform's own nodes are an administrator organization's to manage, and everybody's to use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.localcloud.support.provider import community_node, provider_nodes, set_status
from tests.localcloud.support.reservations import act_on, create_vm, path, released, reserve, units_of, vm_of
from tests.localcloud.support.workloads import (
    UNTIL_RUNNING,
    act,
    own_node,
    remove_shared_nodes,
    running_pod,
    set_organization,
    status,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

NODE = "/v1/orgs/{org}/provider/nodes/"


@pytest_asyncio.fixture
async def node(server: Server) -> str:
    """A node that nobody brought in, and all the capacity there is."""
    await remove_shared_nodes(server)
    return str((await server.ok("POST", "/nodes", {"gpuModelId": "h100", "gpuCount": 2}))["id"])


@pytest_asyncio.fixture
async def administrator(server: Server) -> Organization:
    """The platform's organization."""
    own = await server.organization()
    await set_organization(own, administrator=True)
    return own


async def test_an_administrator_sees_and_drains_the_platforms_nodes(
    administrator: Organization, organization: Organization, node: str
) -> None:
    assert [each["id"] for each in await provider_nodes(administrator)] == [node]
    pod = await running_pod(organization, gpuModelId="h100")
    assert [each["workloads"] for each in await provider_nodes(administrator)] == [1]
    assert (await set_status(administrator, node, "draining"))["status"] == "draining"
    refused = await organization.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    assert refused.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert await status(organization, pod) == "running"
    await act(organization, pod, "terminate")


async def test_an_administrator_reserves_lends_and_takes_back_the_platforms_units(
    administrator: Organization, organization: Organization, node: str
) -> None:
    made = await reserve(administrator, node, [0], organization)
    vm = await vm_of(organization, nodeId=node)
    assert await units_of(organization, vm) == [f"{node}-gpu0"]
    await act(organization, vm, "terminate")
    assert (await act_on(administrator, made, "release"))["status"] == "released"
    guest = await vm_of(organization, tier="spot")
    await administrator.server.advance(UNTIL_RUNNING)
    ended = await administrator.ok("POST", f"/v1/vms/{guest}/terminate")
    assert (ended["id"], ended["status"]) == (guest, "terminated")
    assert (await administrator.call("DELETE", path(node, made["id"]))).status == 204


async def test_the_platforms_nodes_are_nobody_elses_to_manage(
    administrator: Organization, organization: Organization, node: str
) -> None:
    made = await released(administrator, node, [0], administrator)
    guest = await vm_of(organization, tier="spot")
    await set_organization(organization, provider=True)
    stranger = await administrator.server.organization()
    for nobody in (organization, stranger):
        assert await provider_nodes(nobody) == []
        for method, at, body in (
            ("PATCH", NODE + node, {"status": "removed"}),
            ("POST", path(node), {"unitIds": [f"{node}-gpu1"], "allowedOrgIds": []}),
            ("GET", path(node), None),
            ("GET", path(node, made["id"]), None),
            ("POST", path(node, made["id"], "reclaim"), None),
            ("DELETE", path(node, made["id"]), None),
        ):
            assert (await nobody.call(method, at, body)).refusal == (404, "not_found"), (method, at)
    assert (await stranger.call("POST", f"/v1/vms/{guest}/terminate")).refusal == (404, "not_found")
    await set_organization(administrator, administrator=False)
    assert await provider_nodes(administrator) == []
    assert (await administrator.call("PATCH", NODE + node, {"status": "draining"})).refusal == (404, "not_found")


async def test_an_administrator_manages_no_nodes_of_others(
    administrator: Organization, organization: Organization, node: str
) -> None:
    await set_organization(organization, provider=True)
    enrolled, alone = await community_node(organization), await own_node(organization)
    assert [each["id"] for each in await provider_nodes(administrator)] == [node]
    for theirs in (enrolled, alone):
        answer = await administrator.call("PATCH", NODE + theirs, {"status": "removed"})
        assert answer.refusal == (404, "not_found")
    assert (await create_vm(administrator, nodeId=alone)).status == 404
