"""The public catalog: section 2, "Catalog availability", and section 4, "Catalog"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import act, new_pod, own_node, remove_shared_nodes, set_node

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

MODELS = ["h100", "a100", "l40s", "rtx4090"]


@pytest.mark.parametrize("path", ["gpu-models", "gpu-availability", "pricing", "locations", "vm-templates"])
async def test_the_catalog_needs_a_key_and_no_scope(organization: Organization, path: str) -> None:
    key = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "k", "scopes": ["inference"]})
    assert (await organization.call("GET", f"/v1/{path}", key=key["key"])).status == 200
    assert (await request("GET", f"{organization.server.url}/v1/{path}")).refusal[0] == 401


async def test_a_fresh_cloud_has_two_nodes_of_eight_of_each_model(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    nodes = (await server.ok("GET", "/nodes"))["items"]
    assert sorted((node["gpuModelId"], node["gpuCount"]) for node in nodes) == sorted(
        (model, 8) for model in MODELS for _ in range(2)
    )
    organization = server.seeded()
    for model in (await organization.ok("GET", "/v1/gpu-availability"))["items"]:
        assert model["vm"]["totalGpus"] == model["cluster"]["freeGpus"] == 16
    capacity = (await organization.ok("GET", "/v1/pods/capacity"))["items"]
    assert [(item["gpuModelId"], item["freeUnits"], item["maxGpuCount"]) for item in capacity] == [
        (model, 16, 8) for model in MODELS
    ]


async def test_gpu_models_and_prices_agree(organization: Organization) -> None:
    models = (await organization.ok("GET", "/v1/gpu-models"))["items"]
    prices = await organization.ok("GET", "/v1/pricing")
    assert [model["id"] for model in models] == MODELS
    assert {model["id"]: model["pricePerHourCents"] for model in models} == {
        price["gpuModelId"]: price["pricePerHourCents"] for price in prices["gpu"]
    }
    for price in prices["cpu"]:
        assert set(price) == {"resourceSize", "pricePerHourCents", "vcpu", "ramMb"}
        assert all(isinstance(price[field], int) for field in ("pricePerHourCents", "vcpu", "ramMb"))


async def test_locations_have_the_regions_of_the_nodes(server: Server, organization: Organization) -> None:
    nodes = (await server.ok("GET", "/nodes"))["items"]
    shared = {node["location"]: node["region"] for node in nodes if node["organizationId"] is None}
    assert shared.keys() == {"ams1", "iad1"}
    locations = (await organization.ok("GET", "/v1/locations"))["items"]
    regions = {location["id"]: location["region"] for location in locations}
    assert len(regions) == len(locations)
    assert shared.items() <= regions.items()


async def test_a_node_brings_its_location_along_for_whoever_may_use_it(
    server: Server, organization: Organization
) -> None:
    node = {"gpuModelId": "l40s", "gpuCount": 1, "location": "lab", "region": "basement"}
    made = [await server.ok("POST", "/nodes", node | {"orgId": organization.id}) for _ in range(2)]
    place = {"id": "lab", "name": "lab", "region": "basement"}
    assert (await organization.ok("GET", "/v1/locations"))["items"].count(place) == 1
    assert place not in (await (await server.organization()).ok("GET", "/v1/locations"))["items"]
    for each in made:
        await server.ok("PATCH", f"/nodes/{each['id']}", {"removed": True})
    assert place not in (await organization.ok("GET", "/v1/locations"))["items"]


async def test_vm_templates_can_be_used(organization: Organization) -> None:
    templates = (await organization.ok("GET", "/v1/vm-templates"))["items"]
    body = {"name": "from-template", "templateId": templates[0]["id"]}
    await organization.ok("POST", "/v1/orgs/{org}/vms/create", body)


async def availability(organization: Organization, model: str) -> Any:
    items = (await organization.ok("GET", "/v1/gpu-availability"))["items"]
    return next(item for item in items if item["gpuModelId"] == model)


async def test_availability_follows_what_is_placed(server: Server) -> None:
    await remove_shared_nodes(server)
    organization = await server.organization()
    first = await own_node(organization)
    second = await own_node(organization)
    pod = await new_pod(organization, gpuCount=3)
    await new_pod(organization, gpuCount=6)
    shown = await availability(organization, "h100")
    assert {key: value for key, value in shown["vm"].items() if key != "nodes"} == {
        "totalGpus": 16,
        "freeGpus": 7,
        "maxPlaceableGpus": 4,
        "placeableGpuCounts": [1, 2, 4],
        "spotFreeGpus": 0,
        "spotPlaceableGpuCounts": [1, 2, 4],
        "reservedFreeGpus": 0,
        "tileLattice": [1, 2, 4, 8],
    }
    assert {node["nodeId"]: node["freeGpus"] for node in shown["vm"]["nodes"]} == {first: 5, second: 2}
    assert shown["cluster"]["placeableGpuCounts"] == [1, 2, 3, 4, 5]
    assert shown["cluster"]["maxPlaceableGpus"] == 5
    assert "tileLattice" not in shown["cluster"]
    await act(organization, pod["id"], "terminate")
    assert (await availability(organization, "h100"))["vm"]["freeGpus"] == 10
    await set_node(organization, first, reporting=False)
    shown = (await availability(organization, "h100"))["vm"]
    assert (shown["totalGpus"], shown["freeGpus"]) == (8, 2)


async def test_the_capacity_of_pods_follows_what_is_placed(server: Server) -> None:
    await remove_shared_nodes(server)
    organization = await server.organization()
    await own_node(organization, count=4)
    await own_node(organization, count=2)
    await new_pod(organization, gpuCount=2)
    capacity = (await organization.ok("GET", "/v1/pods/capacity"))["items"]
    assert capacity[0] == {
        "gpuModelId": "h100",
        "name": "NVIDIA H100 SXM 80GB",
        "freeUnits": 4,
        "maxGpuCount": 4,
        "pricePerHourCents": 249,
    }
    assert [(item["freeUnits"], item["maxGpuCount"]) for item in capacity[1:]] == [(0, 0)] * 3


async def test_owned_nodes_are_seen_by_their_owner_only(server: Server) -> None:
    await remove_shared_nodes(server)
    owner, other = await server.organization(), await server.organization()
    await own_node(owner)
    assert (await availability(owner, "h100"))["vm"]["totalGpus"] == 8
    assert (await availability(other, "h100"))["vm"]["totalGpus"] == 0
    answer = await other.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
