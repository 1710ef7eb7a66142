"""Creating and reading pods: sections 2 and 4, "Pod", with the settled details."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.localcloud.support.workloads import (
    DAY,
    act,
    free_gpus,
    new_pod,
    own_node,
    record,
    remove_shared_nodes,
    running_pod,
    set_organization,
    status,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization, Server

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+RzrdIgTdXFxZ5hBsEvmYhbqQGXmmnHqTkcFFSYYjC someone@host"


@pytest_asyncio.fixture
async def roomless(server: Server) -> Organization:
    """An organization without any node: each test brings in what it needs."""
    await remove_shared_nodes(server)
    return await server.organization()


@pytest_asyncio.fixture
async def organization(roomless: Organization) -> Organization:
    """An organization whose only room is eight H100s of its own."""
    await own_node(roomless)
    return roomless


async def test_a_pod_needs_an_image_only(organization: Organization) -> None:
    pod = await organization.ok("POST", "/v1/pods", {"image": "app:1"})
    assert pod["status"] == "deploying"
    assert pod["gpuModelId"] == "h100", "the only model that has room"


async def test_a_pod_is_answered_with_every_field_of_the_record(organization: Organization) -> None:
    pod = await organization.ok(
        "POST",
        "/v1/pods",
        {
            "image": "pytorch/pytorch:2.9.0",
            "name": "trainer",
            "gpuModelId": "h100",
            "gpuCount": 2,
            "computeClass": "on_demand",
            "httpPort": 8080,
            "public": True,
            "envVars": {"EPOCHS": "3"},
            "sshKeys": [SSH_KEY],
            "shmSizeGb": 16,
            "volumeGb": 100,
        },
    )
    gateway_port = organization.server.ready["gatewayUrl"].rpartition(":")[2]
    assert pod.pop("id").startswith("pod_")
    assert pod.pop("createdAt").endswith("Z")
    label, _, port = pod.pop("endpointUrl").removeprefix("http://").removesuffix("/").partition(".localhost:")
    assert (port, "/" in label) == (gateway_port, False)
    assert pod == {
        "organizationId": organization.id,
        "name": "trainer",
        "status": "deploying",
        "gpuModelId": "h100",
        "gpuModelName": "NVIDIA H100 SXM 80GB",
        "gpuCount": 2,
        "volumeGb": 100,
        "diskSizeGb": 50,
        "public": True,
        "provisioningStage": "placing",
        "resourceSize": "gpu-2x",
        "tier": "standard",
        "pricePerHourCents": 498,
        "serviceType": "pod",
        "managedBy": "customer",
        "capabilityTier": "standard",
        "computeClass": "on_demand",
        "imageUrl": "pytorch/pytorch:2.9.0",
    }


async def test_defaults_are_those_of_the_specification(organization: Organization) -> None:
    pod = await new_pod(organization)
    assert (pod["gpuCount"], pod["volumeGb"], pod["public"], pod["computeClass"]) == (1, 50, False, "on_demand")


async def test_a_pod_is_placed_then_started_then_running(organization: Organization) -> None:
    pod = await new_pod(organization)
    shown = []
    for _ in range(3):
        seen = await record(organization, pod["id"])
        shown.append((seen["status"], seen["provisioningStage"]))
        await organization.server.advance(1)
    assert shown == [("deploying", "placing"), ("deploying", "starting"), ("running", "ready")]


async def test_latencies_are_settings(server: Server, organization: Organization) -> None:
    await server.ok("PATCH", "/settings", {"placementSeconds": 30, "startSeconds": 60})
    try:
        pod = await new_pod(organization)
        await server.advance(89)
        assert await status(organization, pod["id"]) == "deploying"
        await server.advance(1)
        assert await status(organization, pod["id"]) == "running"
    finally:
        await server.ok("PATCH", "/settings", {"placementSeconds": 1, "startSeconds": 1})


@pytest.mark.parametrize(
    "fields",
    [
        {"gpuCount": 0},
        {"gpuCount": 9},
        {"gpuCount": "1"},
        {"gpuCount": 1.5},
        {"volumeGb": 9},
        {"volumeGb": 1025},
        {"shmSizeGb": 0},
        {"shmSizeGb": 8193},
        {"httpPort": 0},
        {"httpPort": 65536},
        {"public": "true"},
        {"image": ""},
        {"image": 1},
        {"name": ""},
        {"name": "n" * 64},
        {"name": "a\nb"},
        {"computeClass": "cheap"},
        {"envVars": {"A": 1}},
        {"envVars": ["A=1"]},
        {"sshKeys": ["not a key"]},
        {"sshKeys": "ssh-ed25519"},
    ],
)
async def test_what_is_out_of_bounds_is_400(organization: Organization, fields: dict[str, object]) -> None:
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100", **fields})
    assert answer.refusal[0] == 400
    assert await free_gpus(organization) == 8


@pytest.mark.parametrize(
    "fields",
    [
        {"gpuCount": 1},
        {"gpuCount": 8},
        {"volumeGb": 10},
        {"volumeGb": 1024},
        {"shmSizeGb": 1},
        {"name": "n" * 63},
        {"httpPort": 1},
        {"httpPort": 65535},
        {"name": "Größe 1 / ü"},
        {"name": None, "envVars": None},
        {"envVars": {f"V{number}": "" for number in range(1000)}},
    ],
)
async def test_what_is_on_the_bounds_is_accepted(organization: Organization, fields: dict[str, object]) -> None:
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100", **fields})
    assert answer.status == 200, answer.raw


async def test_a_pod_without_an_image_is_400(organization: Organization) -> None:
    assert (await organization.call("POST", "/v1/pods", {"gpuModelId": "h100"})).refusal[0] == 400


async def test_the_deprecated_class_reserved_is_stored_as_on_demand(organization: Organization) -> None:
    assert (await new_pod(organization, computeClass="reserved"))["computeClass"] == "on_demand"


async def test_the_retired_class_interruptible_is_refused_with_its_code(organization: Organization) -> None:
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "computeClass": "interruptible"})
    assert answer.refusal == (400, "COMPUTE_CLASS_RETIRED")


async def test_an_unknown_gpu_model_is_422(organization: Organization) -> None:
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h9000"})
    assert answer.refusal[0] == 422


async def test_a_name_is_taken_while_its_pod_lives_and_free_again_after(organization: Organization) -> None:
    first = await new_pod(organization, name="trainer")
    body = {"image": "app:1", "gpuModelId": "h100", "name": "trainer"}
    assert (await organization.call("POST", "/v1/pods", body)).refusal[0] == 409
    await act(organization, first["id"], "terminate")
    assert (await organization.call("POST", "/v1/pods", body)).status == 200


async def test_names_are_taken_by_kind_and_organization(server: Server, organization: Organization) -> None:
    await new_pod(organization, name="same")
    await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "same"})
    other = await server.organization()
    await own_node(other)
    await new_pod(other, name="same")


@pytest.mark.parametrize("name", ["山田　太郎", "👩‍💻", "می‌خواهم", "a\N{NO-BREAK SPACE}b"])
async def test_a_name_may_be_of_any_script(organization: Organization, name: str) -> None:
    pod = await organization.ok("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100", "name": name})
    assert (await record(organization, pod["id"]))["name"] == name


@pytest.mark.parametrize("name", ["a\nb", "a\N{LINE SEPARATOR}b", "a\N{RIGHT-TO-LEFT OVERRIDE}b", "a\x7f"])
async def test_a_name_with_a_control_character_is_400(organization: Organization, name: str) -> None:
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100", "name": name})
    assert (answer.status, answer.body["error"]) == (400, "name: must consist of printable characters.")


async def test_pods_without_a_name_get_different_ones(organization: Organization) -> None:
    assert (await new_pod(organization))["name"] != (await new_pod(organization))["name"]


async def test_no_funds_no_pod(organization: Organization) -> None:
    await set_organization(organization, balanceCents=0)
    answer = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    await set_organization(organization, balanceCents=1)
    await new_pod(organization)


async def test_an_organization_without_funds_learns_that_and_not_that_there_is_no_room(roomless: Organization) -> None:
    node = await own_node(roomless, count=1)
    await new_pod(roomless)
    await set_organization(roomless, balanceCents=0)
    pods, vms = "/v1/pods", "/v1/orgs/{org}/vms/create"
    for path, body in (
        (pods, {"image": "app:1"}),
        (pods, {"image": "app:1", "gpuModelId": "h100"}),
        (vms, {"name": "box", "gpuModelId": "h100"}),
        (vms, {"name": "box", "gpuModelId": "h100", "nodeId": node}),
    ):
        assert (await roomless.call("POST", path, body)).refusal == (402, "INSUFFICIENT_BALANCE"), body
    assert (await roomless.call("POST", pods, {"image": "app:1", "gpuModelId": "h900"})).refusal[0] == 422


async def test_shared_memory_over_the_nodes_share_is_422(roomless: Organization) -> None:
    await own_node(roomless, ramGb=800)
    body = {"image": "app:1", "gpuModelId": "h100", "gpuCount": 2}
    assert (await roomless.call("POST", "/v1/pods", {**body, "shmSizeGb": 201})).refusal[0] == 422
    assert (await roomless.call("POST", "/v1/pods", {**body, "shmSizeGb": 200})).status == 200


async def test_a_count_that_no_node_could_hold_is_422(roomless: Organization) -> None:
    await own_node(roomless, count=4)
    body = {"image": "app:1", "gpuModelId": "h100", "gpuCount": 5}
    assert (await roomless.call("POST", "/v1/pods", body)).refusal[0] == 422


async def test_without_a_model_a_pod_is_refused_for_good_only_if_no_model_could_ever_hold_it(
    roomless: Organization,
) -> None:
    await own_node(roomless, "l40s", 4, ramGb=400)
    await own_node(roomless, "h100", 2, ramGb=400)
    await roomless.ok("POST", "/v1/pods", {"image": "a", "gpuCount": 4})
    for fields, refusal in (
        ({"gpuCount": 4}, (503, "INSUFFICIENT_GPU_CAPACITY")),
        ({"gpuCount": 4, "shmSizeGb": 400}, (503, "INSUFFICIENT_GPU_CAPACITY")),
        ({"gpuCount": 4, "shmSizeGb": 401}, (422, "SHM_OVER_ENTITLEMENT")),
        ({"gpuCount": 5}, (422, "GPU_COUNT_NOT_PLACEABLE")),
    ):
        answer = await roomless.call("POST", "/v1/pods", {"image": "a", **fields})
        assert answer.refusal == refusal, fields


async def test_a_full_cloud_says_so_with_an_integer_retry_after(organization: Organization) -> None:
    await new_pod(organization, gpuCount=7)
    answer = await organization.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100", "gpuCount": 2})
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0
    await new_pod(organization, gpuCount=1)


async def test_the_status_of_saturation_is_a_setting(server: Server, organization: Organization) -> None:
    await new_pod(organization, gpuCount=8)
    await server.ok("PATCH", "/settings", {"capacityStatus": 429})
    try:
        answer = await organization.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100"})
    finally:
        await server.ok("PATCH", "/settings", {"capacityStatus": 503})
    assert answer.refusal == (429, "INSUFFICIENT_GPU_CAPACITY")


async def test_all_gpus_of_a_pod_are_on_one_node(roomless: Organization) -> None:
    for _ in range(2):
        await own_node(roomless, count=4)
    await new_pod(roomless, gpuCount=3)
    await new_pod(roomless, gpuCount=3)
    answer = await roomless.call("POST", "/v1/pods", {"image": "a", "gpuModelId": "h100", "gpuCount": 2})
    assert answer.refusal == (503, "INSUFFICIENT_GPU_CAPACITY"), "two are free, but on two nodes"


async def test_a_terminated_pod_is_answered_for_a_day(organization: Organization) -> None:
    pod_id = await running_pod(organization)
    await act(organization, pod_id, "terminate")
    await organization.server.advance(DAY - 1)
    assert await status(organization, pod_id) == "terminated"
    await organization.server.advance(1)
    assert (await organization.call("GET", f"/v1/vms/{pod_id}")).refusal == (404, "not_found")


async def test_a_pod_of_another_organization_is_not_found(server: Server, organization: Organization) -> None:
    pod_id = await running_pod(organization)
    other = await server.organization()
    assert (await other.call("GET", f"/v1/vms/{pod_id}")).refusal == (404, "not_found")
    for action in ("stop", "restart", "terminate"):
        assert (await other.call("POST", f"/v1/vms/{pod_id}/{action}")).refusal == (404, "not_found")
    assert (await other.call("POST", f"/v1/vms/{pod_id}/visibility", {"public": True})).refusal == (404, "not_found")
    assert await status(organization, pod_id) == "running"


async def test_visibility_opens_and_closes_the_endpoint(organization: Organization) -> None:
    pod_id = await running_pod(organization)
    for public in (True, False):
        shown = await organization.ok("POST", f"/v1/vms/{pod_id}/visibility", {"public": public})
        assert shown["public"] is public
        assert (await record(organization, pod_id))["public"] is public
    assert (await organization.call("POST", f"/v1/vms/{pod_id}/visibility", {})).refusal[0] == 400


async def test_pods_need_the_scopes_of_vms(organization: Organization) -> None:
    pod = await new_pod(organization)
    reader = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "r", "scopes": ["vms:read"]})
    none = await organization.ok("POST", "/v1/orgs/{org}/api-keys/create", {"name": "n", "scopes": ["inference"]})
    assert (await organization.call("GET", f"/v1/vms/{pod['id']}", key=reader["key"])).status == 200
    assert (await organization.call("GET", f"/v1/vms/{pod['id']}", key=none["key"])).status == 403
    assert (await organization.call("GET", "/v1/pods/capacity", key=reader["key"])).status == 200
    assert (await organization.call("GET", "/v1/pods/capacity", key=none["key"])).status == 403
    assert (await organization.call("POST", "/v1/pods", {"image": "a"}, key=reader["key"])).status == 403
    assert (await organization.call("POST", f"/v1/vms/{pod['id']}/stop", key=reader["key"])).status == 403
    assert (await organization.call("POST", f"/v1/vms/{pod['id']}/stop", key="or_wrong")).status == 401


async def test_viewers_read_and_members_work(server: Server, organization: Organization) -> None:
    pod = await new_pod(organization)
    tokens = {
        role: (await server.ok("POST", f"/orgs/{organization.id}/session", {"role": role}))["userSessionToken"]
        for role in ("viewer", "member")
    }
    body = {"image": "app:1", "gpuModelId": "h100"}
    assert (await organization.call("GET", f"/v1/vms/{pod['id']}", key=tokens["viewer"])).status == 200
    assert (await organization.call("POST", "/v1/pods", body, key=tokens["viewer"])).status == 403
    assert (await organization.call("POST", f"/v1/vms/{pod['id']}/terminate", key=tokens["viewer"])).status == 403
    assert (await organization.call("POST", "/v1/pods", body, key=tokens["member"])).status == 200
