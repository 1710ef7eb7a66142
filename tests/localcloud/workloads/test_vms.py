"""VMs: sections 2 and 4, "VM", as far as they differ from pods."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.localcloud.support.workloads import (
    DAY,
    GRACE,
    UNTIL_RUNNING,
    act,
    balance,
    emails,
    free_gpus,
    new_pod,
    own_node,
    received,
    record,
    remove_shared_nodes,
    set_node,
    set_organization,
    spent,
    status,
    subscribe,
)

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

SSH_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+RzrdIgTdXFxZ5hBsEvmYhbqQGXmmnHqTkcFFSYYjC someone@host"


@pytest_asyncio.fixture
async def organization(server: Server) -> Organization:
    """An organization whose only room is eight H100s of its own."""
    await remove_shared_nodes(server)
    own = await server.organization()
    await own_node(own)
    return own


async def create(organization: Organization, **fields: object) -> Any:
    body = {"name": "box", "gpuModelId": "h100", **fields}
    return await organization.ok("POST", "/v1/orgs/{org}/vms/create", body)


async def refused(organization: Organization, **fields: object) -> tuple[int, str]:
    body = {"name": "box", "gpuModelId": "h100", **fields}
    return (await organization.call("POST", "/v1/orgs/{org}/vms/create", body)).refusal


async def running(organization: Organization, **fields: object) -> str:
    vm = await create(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, vm["id"]) == "running"
    return str(vm["id"])


async def test_create_answers_id_name_and_status(organization: Organization) -> None:
    created = await create(organization)
    assert created.pop("id").startswith("vm_")
    assert created == {"name": "box", "status": "provisioning"}


async def test_a_vm_goes_from_provisioning_to_running_and_back_as_pods_do(
    organization: Organization, receiver: Receiver
) -> None:
    await subscribe(organization, receiver)
    vm_id = (await create(organization, gpuCount=2))["id"]
    assert await status(organization, vm_id) == "provisioning"
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, vm_id) == "running"
    assert (await act(organization, vm_id, "stop"))["status"] == "stopping"
    await organization.server.advance(1)
    assert await status(organization, vm_id) == "stopped"
    assert await free_gpus(organization) == 8
    assert (await act(organization, vm_id, "restart"))["status"] == "provisioning"
    await organization.server.advance(UNTIL_RUNNING)
    assert (await act(organization, vm_id, "restart"))["status"] == "running"
    assert (await act(organization, vm_id, "terminate"))["status"] == "terminated"
    events = await received(receiver, lambda events: len(events) == 4)
    assert sorted(event["type"] for event in events) == ["vm.running", "vm.running", "vm.stopped", "vm.terminated"]
    assert all(event["data"]["vmId"] == vm_id and "podId" not in event["data"] for event in events)


async def test_the_record_has_what_was_asked_for(organization: Organization) -> None:
    vm_id = await running(
        organization, gpuCount=4, diskSizeGb=200, imageUrl="ubuntu:24.04", public=True, resourceSize="gpu-4x"
    )
    shown = await record(organization, vm_id)
    wanted = {
        "name": "box",
        "gpuModelId": "h100",
        "gpuCount": 4,
        "diskSizeGb": 200,
        "imageUrl": "ubuntu:24.04",
        "public": True,
        "serviceType": "vm",
        "resourceSize": "gpu-4x",
        "tier": "standard",
        "capabilityTier": "beta",
        "pricePerHourCents": 4 * 249,
    }
    assert {key: shown[key] for key in wanted} == wanted


async def test_a_production_vm_has_its_endpoint_per_port_and_others_a_bare_host(organization: Organization) -> None:
    production = await record(organization, await running(organization, tier="production", containerPort=8080))
    beta = await record(organization, await running(organization, name="other", tier="beta"))
    assert production["endpointUrl"].startswith("http://8080-vm-")
    assert beta["endpointUrl"].startswith("http://vm-")
    assert (production["capabilityTier"], beta["capabilityTier"]) == ("production", "beta")


async def test_a_vm_without_a_gpu_model_is_a_cpu_vm(organization: Organization) -> None:
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "cpu", "resourceSize": "large"})
    await organization.server.advance(UNTIL_RUNNING + 3600)
    shown = await record(organization, vm["id"])
    assert (shown["status"], shown["gpuCount"], shown["resourceSize"]) == ("running", 0, "large")
    assert "gpuModelId" not in shown
    assert await spent(organization) == shown["pricePerHourCents"] == 16
    assert await free_gpus(organization) == 8


async def test_addresses_run_out(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"ipAddresses": 2})
    organization = await server.organization()
    pod = await organization.ok("POST", "/v1/pods", {"image": "a"})
    await organization.ok("POST", "/v1/orgs/{org}/clusters/create", {"name": "one"})
    for path, body in (("pods", {"image": "a"}), ("orgs/{org}/clusters/create", {"name": "two"})):
        answer = await organization.call("POST", f"/v1/{path}", body)
        assert answer.refusal == (503, "INSUFFICIENT_IP_CAPACITY")
        assert int(answer.headers["retry-after"]) > 0
    await act(organization, pod["id"], "terminate")
    await organization.ok("POST", "/v1/pods", {"image": "a"})


async def test_cpu_vms_run_out_of_slots(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"cpuSlots": 1})
    organization = await server.organization()
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "one"})
    answer = await organization.call("POST", "/v1/orgs/{org}/vms/create", {"name": "two"})
    assert answer.refusal == (503, "INSUFFICIENT_CPU_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0
    poor = await server.organization()
    await set_organization(poor, balanceCents=0)
    answer = await poor.call("POST", "/v1/orgs/{org}/vms/create", {"name": "two"})
    assert answer.refusal == (402, "INSUFFICIENT_BALANCE")
    await server.advance(UNTIL_RUNNING)
    await act(organization, vm["id"], "stop")
    await server.advance(1)
    other = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "two"})
    answer = await organization.call("POST", f"/v1/vms/{vm['id']}/restart")
    assert answer.refusal == (503, "INSUFFICIENT_CPU_CAPACITY")
    assert await status(organization, vm["id"]) == "stopped"
    await act(organization, other["id"], "terminate")
    assert (await act(organization, vm["id"], "restart"))["status"] == "provisioning"


@pytest.mark.parametrize(
    ("fields", "answered"),
    [
        ({"name": None}, 400),
        ({"gpuCount": 0}, 400),
        ({"gpuCount": 3}, 422),
        ({"gpuCount": 16}, 422),
        ({"gpuModelId": "h9000"}, 422),
        ({"gpuModelId": None, "gpuCount": 1}, 422),
        ({"gpuModelId": None, "gpuCount": -1}, 400),
        ({"gpuModelId": None, "resourceSize": "huge"}, 422),
        ({"resourceSize": "huge"}, 422),
        ({"preferredRegions": ["atlantis"], "allowFallback": False}, 422),
        ({"gpuModelId": None, "preferredRegions": ["atlantis"], "allowFallback": False}, 422),
        ({"tier": "gold"}, 400),
        ({"templateId": "none"}, 422),
        ({"templateId": "ubuntu-24-04", "sshKeyIds": ["none"]}, 422),
        ({"registryCredentialId": "none"}, 422),
        ({"nodeId": "none"}, 404),
        ({"gpuModelId": None, "nodeId": "none"}, 404),
        ({"containerPort": 65536}, 400),
        ({"diskSizeGb": 0}, 400),
        ({"envVars": {"A": 1}}, 400),
        ({"cloudInit": "echo hello"}, 400),
        ({"cloudInit": "#cloud-config\nruncmd: [echo]"}, 400),
        ({"cloudInit": "#!/bin/sh\n" + "x" * 16_375}, 400),
    ],
)
async def test_bad_requests_are_refused(organization: Organization, fields: dict[str, object], answered: int) -> None:
    assert (await refused(organization, **fields))[0] == answered
    assert await free_gpus(organization) == 8


async def test_cloud_init_may_have_16384_characters(organization: Organization) -> None:
    await create(organization, cloudInit="#!/bin/sh\n" + "x" * 16_374)


async def test_registered_ssh_keys_are_known(organization: Organization) -> None:
    key = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "k", "publicKey": SSH_KEY})
    await create(organization, sshKeyIds=[key["id"]])


async def test_a_registered_ssh_key_is_attached_to_what_exists(server: Server, organization: Organization) -> None:
    public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGpG4mWEYhL6KYQ9JQjqLnqWmHqDyyB0jJ1BwBMzX9tQ me@host"
    key = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "laptop", "publicKey": public})
    pod = await new_pod(organization)
    path = f"/v1/vms/{pod['id']}/ssh-keys/attach"
    for _ in range(2):
        assert (await organization.ok("POST", path, {"sshKeyId": key["id"]}))["id"] == pod["id"]
    assert (await organization.call("POST", path, {"sshKeyId": "ssh_none"})).refusal == (422, "unprocessable")
    assert (await organization.call("POST", path, {})).refusal == (400, "invalid_request")
    other = await server.organization()
    assert (await other.call("POST", path, {"sshKeyId": key["id"]})).refusal == (404, "not_found")
    rows = (await server.ok("GET", "/export"))["tables"]["attached_ssh_keys"]
    assert [row["ssh_key_id"] for row in rows if row["workload_id"] == pod["id"]] == [key["id"]]
    await act(organization, pod["id"], "terminate")
    assert (await organization.call("POST", path, {"sshKeyId": key["id"]})).refusal == (409, "conflict")
    assert (await organization.call("DELETE", "/v1/orgs/{org}/ssh-keys/" + key["id"])).status == 204


async def test_a_named_node_is_used_or_refused_without_fallback(organization: Organization) -> None:
    small = await own_node(organization, count=2)
    vm_id = await running(organization, nodeId=small, gpuCount=2)
    nodes = (await organization.server.ok("GET", "/nodes"))["items"]
    [node] = [node for node in nodes if node["id"] == small]
    assert [unit["workloadId"] for unit in node["units"]] == [vm_id, vm_id]
    answer = await organization.call(
        "POST", "/v1/orgs/{org}/vms/create", {"name": "two", "gpuModelId": "h100", "nodeId": small}
    )
    assert answer.refusal == (503, "NODE_AT_CAPACITY")
    assert int(answer.headers["retry-after"]) > 0


async def test_the_node_of_another_organization_reads_as_not_found(server: Server, organization: Organization) -> None:
    other = await server.organization()
    assert await refused(organization, nodeId=await own_node(other)) == (404, "not_found")


async def test_preferred_regions_are_preferred_and_binding_without_fallback(organization: Organization) -> None:
    west = await own_node(organization, location="sjc1", count=2)
    vm_id = await running(organization, preferredRegions=["us-west"], gpuCount=2)
    nodes = (await organization.server.ok("GET", "/nodes"))["items"]
    [node] = [node for node in nodes if node["id"] == west]
    assert {unit["workloadId"] for unit in node["units"]} == {vm_id}
    answer = await refused(organization, name="two", preferredRegions=["us-west"], allowFallback=False)
    assert answer == (503, "INSUFFICIENT_GPU_CAPACITY")
    await create(organization, name="two", preferredRegions=["us-west"], allowFallback=True)
    await create(organization, name="three", preferredRegions=["atlantis"])
    await create(organization, name="four", preferredRegions=["atlantis", "eu-west"], allowFallback=False)
    named = {"nodeId": west, "preferredRegions": ["eu-west"]}
    assert await refused(organization, name="five", **named, allowFallback=False) == (422, "unprocessable")
    assert (await refused(organization, name="five", **named))[1] == "NODE_AT_CAPACITY"


async def test_node_loss_does_to_vms_what_it_does_to_pods(organization: Organization) -> None:
    node = await own_node(organization, count=1)
    vm_id = await running(organization, nodeId=node)
    await set_node(organization, node, reporting=False)
    await organization.server.advance(GRACE)
    assert await status(organization, vm_id) == "interrupted"
    await organization.server.advance(7 * DAY)
    assert await status(organization, vm_id) == "terminated"
    assert len(await emails(organization)) == 1


async def test_a_vm_stopped_by_the_balance_is_kept(organization: Organization) -> None:
    vm_id = await running(organization)
    await set_organization(organization, balanceCents=0)
    await organization.server.advance(30 * DAY)
    assert await status(organization, vm_id) == "stopped"
    assert (await balance(organization))["availableCents"] == -1
    assert await emails(organization) == []


async def test_there_is_no_list_of_vms_unless_asked_for(organization: Organization) -> None:
    assert (await organization.call("GET", "/v1/orgs/{org}/vms")).status in {404, 405}


async def test_list_vms_pages_live_vms_and_pods_newest_first(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen", "--list-vms")
    organization = await server.organization()
    ids = [(await create(organization, name=f"vm{number}"))["id"] for number in range(3)]
    ids.append((await organization.ok("POST", "/v1/pods", {"image": "a"}))["id"])
    await act(organization, ids[1], "terminate")
    page = await organization.ok("GET", "/v1/orgs/{org}/vms?limit=2")
    assert [item["id"] for item in page["items"]] == [ids[3], ids[2]]
    last = await organization.ok("GET", f"/v1/orgs/{{org}}/vms?limit=2&cursor={page['nextCursor']}")
    assert [item["id"] for item in last["items"]] == [ids[0]]
    assert "nextCursor" not in last
    forged = base64.urlsafe_b64encode(b"0:[1]").decode()
    assert (await organization.call("GET", f"/v1/orgs/{{org}}/vms?cursor={forged}")).refusal[0] == 400
