"""The Create VM table of section 2, field by field, and the same fields of pods and clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.localcloud.support.pods import units_of
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import (
    UNTIL_RUNNING,
    act,
    happens,
    own_node,
    record,
    set_node,
    spent,
    status,
    subscribe,
    usage,
)

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver
    from tests.localcloud.support.server import Organization, Server

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ+RzrdIgTdXFxZ5hBsEvmYhbqQGXmmnHqTkcFFSYYjC someone@host"
SCRIPT = "#!/bin/sh\nexit 1\n"
LISTS = ["containerCommand", "healthChecks", "preferredRegions", "kernelModules"]
STRINGS = ["gpuModelId", "resourceSize", "tier", "imageUrl", "healthCheckPath", "registryCredentialId", "templateId"]
PATHS = {"VM": "/v1/orgs/{org}/vms/create", "cluster": "/v1/orgs/{org}/clusters/create", "pod": "/v1/pods"}
SMALLEST: dict[str, dict[str, object]] = {"VM": {"name": "box"}, "cluster": {"name": "box"}, "pod": {"image": "app:1"}}


async def create(organization: Organization, noun: str = "VM", /, **fields: object) -> Any:
    return await organization.ok("POST", PATHS[noun], {**SMALLEST[noun], **fields})


async def running(organization: Organization, **fields: object) -> str:
    vm = await create(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    return str(vm["id"])


async def log(organization: Organization, vm_id: str, source: str) -> list[str]:
    items = (await organization.server.ok("GET", f"/workloads/{vm_id}/logs"))["items"]
    assert all(sorted(item) == ["at", "line", "source"] for item in items)
    return [item["line"] for item in items if item["source"] == source]


async def test_a_vm_needs_a_name_only(organization: Organization) -> None:
    vm_id = await running(organization)
    shown = await record(organization, vm_id)
    assert (shown["resourceSize"], shown["tier"], shown["public"], shown["diskSizeGb"]) == (
        "small",
        "standard",
        False,
        50,
    )


async def test_every_field_may_be_given_and_none_is_unread(server: Server, organization: Organization) -> None:
    key = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "k", "publicKey": KEY})
    credential = await organization.ok(
        "POST",
        "/v1/orgs/{org}/registry-credentials/create",
        {"name": "r", "server": "r.test", "authType": "basic", "credentials": {"username": "u", "password": "p"}},
    )
    node = await own_node(organization)
    body = {
        "name": "box",
        "gpuModelId": "h100",
        "gpuCount": 2,
        "resourceSize": "gpu-2x",
        "tier": "production",
        "imageUrl": "r.test/app:1",
        "containerPort": 8080,
        "containerCommand": ["serve", ""],
        "envVars": {"A": "", "B": "x=y"},
        "diskSizeGb": 120,
        "healthCheckPath": "/health",
        "healthCheckPort": 8081,
        "healthChecks": ["http"],
        "preferredRegions": ["eu-west"],
        "allowFallback": True,
        "privileged": True,
        "kernelModules": ["nvidia_uvm"],
        "registryCredentialId": credential["id"],
        "templateId": "vllm",
        "sshKeyIds": [key["id"]],
        "public": True,
        "nodeId": node,
        "cloudInit": SCRIPT,
    }
    vm_id = await running(organization, **body)
    assert await record(organization, vm_id) == {
        "id": vm_id,
        "organizationId": organization.id,
        "name": "box",
        "status": "running",
        "gpuModelId": "h100",
        "gpuModelName": "NVIDIA H100 SXM 80GB",
        "gpuCount": 2,
        "endpointUrl": (await record(organization, vm_id))["endpointUrl"],
        "volumeGb": 0,
        "diskSizeGb": 120,
        "public": True,
        "createdAt": (await record(organization, vm_id))["createdAt"],
        "provisioningStage": "ready",
        "resourceSize": "gpu-2x",
        "tier": "production",
        "pricePerHourCents": 498,
        "serviceType": "vm",
        "managedBy": "customer",
        "capabilityTier": "production",
        "computeClass": "on_demand",
        "imageUrl": "r.test/app:1",
    }
    items = (await server.ok("GET", f"/requests?organizationId={organization.id}"))["items"]
    assert all(item["unreadFields"] == [] for item in items)


@pytest.mark.parametrize("field", STRINGS)
async def test_null_is_absent(organization: Organization, field: str) -> None:
    await create(organization, **{field: None})


@pytest.mark.parametrize("noun", ["VM", "cluster"])
@pytest.mark.parametrize(
    "wrong",
    [
        *({field: 7} for field in STRINGS),
        *({field: "a"} for field in LISTS),
        *({field: [7]} for field in LISTS),
        {"containerPort": 0},
        {"containerPort": "80"},
        {"containerPort": 80.5},
        {"healthCheckPort": 0},
        {"healthCheckPort": 65_536},
        {"healthCheckPath": ""},
        {"healthCheckPath": "health"},
        {"healthCheckPath": "/with space"},
        {"healthCheckPath": "/" + "x" * 2000},
        {"healthChecks": [""]},
        {"healthChecks": ["http"] * 33},
        {"preferredRegions": [" "]},
        {"preferredRegions": ["eu-west"] * 33},
        {"kernelModules": ["../evil"]},
        {"kernelModules": ["a"] * 65},
        {"privileged": "yes"},
        {"allowFallback": 1},
        {"resourceSize": "x" * 64},
        {"imageUrl": ""},
        {"imageUrl": "two words"},
        {"imageUrl": "x" * 2001},
        {"envVars": ["A=1"]},
        {"envVars": {"": "1"}},
        {"envVars": {"A=B": "1"}},
        {"envVars": {"A": None}},
        {"envVars": {f"V{number}": "" for number in range(1001)}},
        {"envVars": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        {"envVars": {"AMD_VISIBLE_DEVICES": "0"}},
        {"envVars": {"HABANA_VISIBLE_DEVICES": "none"}},
        {"envVars": {"DOCKER_RESOURCE_GPU": "all"}},
        {"diskSizeGb": 0},
        {"diskSizeGb": 65_537},
        {"diskSizeGb": "50"},
    ],
)
async def test_a_field_that_makes_no_sense_is_400(
    organization: Organization, noun: str, wrong: dict[str, object]
) -> None:
    answer = await organization.call("POST", PATHS[noun], {**SMALLEST[noun], **wrong})
    assert answer.refusal == (400, "invalid_request")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sshKeyIds": "a"},
        {"sshKeyIds": [""]},
        {"sshKeyIds": ["a"] * 101},
        {"public": "yes"},
        {"gpuCount": "1"},
        {"gpuCount": 1.5},
        {"nodeId": 7},
        {"cloudInit": ""},
        {"cloudInit": 7},
    ],
)
async def test_a_field_of_vms_alone_that_makes_no_sense_is_400(
    organization: Organization, wrong: dict[str, object]
) -> None:
    assert (await organization.call("POST", PATHS["VM"], {"name": "box", **wrong})).refusal[0] == 400


@pytest.mark.parametrize(
    "wrong",
    [
        {"image": "two words"},
        {"image": "x" * 2001},
        {"envVars": {"": "1"}},
        {"envVars": {"A=B": "1"}},
        {"envVars": {f"V{number}": "" for number in range(1001)}},
        {"envVars": {"NVIDIA_VISIBLE_DEVICES": "all"}},
        {"envVars": {"AMD_VISIBLE_DEVICES": "0"}},
        {"envVars": {"HABANA_VISIBLE_DEVICES": "none"}},
        {"envVars": {"DOCKER_RESOURCE_GPU": "all"}},
        {"sshKeys": [KEY] * 101},
        {"sshKeys": [""]},
    ],
)
async def test_a_field_of_pods_that_makes_no_sense_is_400(organization: Organization, wrong: dict[str, object]) -> None:
    assert (await organization.call("POST", "/v1/pods", {"image": "a", **wrong})).refusal == (400, "invalid_request")


async def test_a_template_fills_in_what_is_absent(organization: Organization) -> None:
    templates = {item["id"]: item for item in (await organization.ok("GET", "/v1/vm-templates"))["items"]}
    filled = await record(organization, (await create(organization, templateId="vllm"))["id"])
    assert filled["imageUrl"] == templates["vllm"]["imageUrl"]
    given = await create(organization, name="own", templateId="vllm", imageUrl="mine:1")
    assert (await record(organization, given["id"]))["imageUrl"] == "mine:1"
    cluster = await create(organization, "cluster", templateId="vllm")
    shown = await organization.ok("GET", f"/v1/clusters/{cluster['id']}/detail")
    assert shown["imageUrl"] == templates["vllm"]["imageUrl"]


@pytest.mark.parametrize("noun", ["VM", "cluster"])
async def test_an_unknown_template_is_422(organization: Organization, noun: str) -> None:
    answer = await organization.call("POST", PATHS[noun], {"name": "box", "templateId": "none"})
    assert answer.refusal == (422, "unprocessable")


@pytest.mark.parametrize(
    ("tier", "capability"),
    [("standard", "beta"), ("spot", "beta"), ("beta", "beta"), ("production", "production")],
)
async def test_every_tier_has_its_capability_tier(organization: Organization, tier: str, capability: str) -> None:
    shown = await record(organization, (await create(organization, tier=tier))["id"])
    assert (shown["tier"], shown["capabilityTier"]) == (tier, capability)


@pytest.mark.parametrize("kind", ["VM", "cluster"])
async def test_an_empty_choice_is_none_at_all(organization: Organization, kind: str) -> None:
    """Clients in many languages send an empty text for a field that nobody set."""
    made = await create(organization, kind, tier="", resourceSize="")
    path = "/v1/vms" if kind == "VM" else "/v1/clusters"
    detail = "" if kind == "VM" else "/detail"
    shown = await organization.ok("GET", f"{path}/{made['id']}{detail}")
    assert (shown["tier"], bool(shown["resourceSize"])) == ("standard", True)


@pytest.mark.parametrize("tier", ["beta", "production"])
async def test_clusters_have_no_tiers_of_vms(organization: Organization, tier: str) -> None:
    answer = await organization.call("POST", PATHS["cluster"], {"name": "box", "tier": tier})
    assert answer.refusal == (400, "invalid_request")


async def test_ssh_keys_of_the_create_are_on_the_vm(server: Server, organization: Organization) -> None:
    key = await organization.ok("POST", "/v1/orgs/{org}/ssh-keys/create", {"name": "k", "publicKey": KEY})
    vm = await create(organization, sshKeyIds=[key["id"], key["id"]])
    rows = (await server.ok("GET", "/export"))["tables"]["attached_ssh_keys"]
    assert [row["ssh_key_id"] for row in rows if row["workload_id"] == vm["id"]] == [key["id"]]


async def test_the_stages_of_provisioning(organization: Organization) -> None:
    vm_id = (await create(organization))["id"]
    stages = []
    for _ in range(3):
        shown = await record(organization, vm_id)
        stages.append((shown["status"], shown["provisioningStage"]))
        await organization.server.advance(1)
    assert stages == [("provisioning", "placing"), ("provisioning", "starting"), ("running", "ready")]
    await act(organization, vm_id, "stop")
    assert "provisioningStage" not in await record(organization, vm_id)


@pytest.mark.usefixtures("early_in_a_month")
async def test_a_reboot_in_place_keeps_the_vm_running_and_billed(
    organization: Organization, receiver: Receiver
) -> None:
    node = await own_node(organization)
    vm_id = await running(organization, gpuModelId="h100", nodeId=node)
    assert await units_of(organization, node) == [vm_id]
    await subscribe(organization, receiver)
    await organization.server.advance(1800)
    assert (await act(organization, vm_id, "restart"))["status"] == "running"
    assert await units_of(organization, node) == [vm_id]
    await organization.server.advance(1800)
    assert (await usage(organization))["breakdown"][0]["hours"] == 1
    assert await spent(organization) == 249
    assert await log(organization, vm_id, "boot") == ["The VM booted."] * 2
    assert receiver.types == []


async def test_a_start_is_no_reboot_in_place(organization: Organization) -> None:
    vm_id = await running(organization)
    await act(organization, vm_id, "stop")
    await organization.server.advance(1)
    assert (await act(organization, vm_id, "restart"))["status"] == "provisioning"
    assert len(await log(organization, vm_id, "boot")) == 1
    await organization.server.advance(UNTIL_RUNNING)
    assert len(await log(organization, vm_id, "boot")) == 2


async def test_cloud_init_runs_once_for_a_disk(organization: Organization) -> None:
    node = await own_node(organization)
    vm_id = (await create(organization, gpuModelId="h100", nodeId=node, cloudInit=SCRIPT))["id"]
    assert await log(organization, vm_id, "cloud-init") == []
    await organization.server.advance(UNTIL_RUNNING)
    [line] = await log(organization, vm_id, "cloud-init")
    assert f"{len(SCRIPT)} characters" in line
    await act(organization, vm_id, "restart")
    await act(organization, vm_id, "stop")
    await organization.server.advance(1)
    await act(organization, vm_id, "restart")
    await organization.server.advance(UNTIL_RUNNING)
    await happens(organization, vm_id, "fail")
    await act(organization, vm_id, "restart")
    await organization.server.advance(UNTIL_RUNNING)
    assert len(await log(organization, vm_id, "boot")) == 4
    assert len(await log(organization, vm_id, "cloud-init")) == 1
    await act(organization, vm_id, "terminate")
    assert await log(organization, vm_id, "cloud-init") == []
    again = await running(organization, cloudInit=SCRIPT)
    assert len(await log(organization, again, "cloud-init")) == 1


async def test_cloud_init_runs_where_the_first_boot_was_interrupted(organization: Organization) -> None:
    node = await own_node(organization)
    vm_id = (await create(organization, gpuModelId="h100", nodeId=node, cloudInit=SCRIPT))["id"]
    await set_node(organization, node, reporting=False)
    await organization.server.advance(180)
    assert await status(organization, vm_id) == "interrupted"
    assert await log(organization, vm_id, "cloud-init") == []
    await set_node(organization, node, reporting=True)
    assert len(await log(organization, vm_id, "cloud-init")) == 1


async def test_a_failing_script_does_not_stop_the_vm_starting_or_being_billed(organization: Organization) -> None:
    vm_id = await running(organization, cloudInit=SCRIPT)
    await organization.server.advance(3600)
    assert (await status(organization, vm_id), await spent(organization)) == ("running", 4)


async def test_only_a_script_with_a_shebang_is_a_cloud_init(organization: Organization) -> None:
    for script in ("#cloud-config\npackages: [git]", "packages: [git]", " #!/bin/sh", "\n#!/bin/sh"):
        answer = await organization.call("POST", PATHS["VM"], {"name": "box", "cloudInit": script})
        assert answer.refusal == (400, "invalid_request")
        assert "shebang" in answer.body["error"]


async def test_a_failing_health_check_is_said_and_stops_nothing(organization: Organization) -> None:
    vm_id = await running(organization, imageUrl="a", healthCheckPath="/health", healthChecks=["http"])
    await happens(organization, vm_id, "unhealthy", reason="HTTP 503")
    shown = await record(organization, vm_id)
    assert shown["status"] == "running"
    assert shown["statusReason"] == "The health check of port 80/health (http) fails: HTTP 503."
    assert (await usage(organization))["burnPerHourCents"] == 4
    endpoint = f"{organization.server.ready['gatewayUrl']}/_w/{vm_id}/"
    assert (await request("GET", endpoint, key=organization.api_key)).status == 200
    await happens(organization, vm_id, "healthy")
    assert "statusReason" not in await record(organization, vm_id)
    await happens(organization, vm_id, "unhealthy")
    await act(organization, vm_id, "restart")
    assert "statusReason" not in await record(organization, vm_id)
    assert len(await log(organization, vm_id, "health-check")) == 3


@pytest.mark.parametrize("field", [{"healthCheckPort": 9000}, {"healthCheckPath": "/up"}, {"healthChecks": ["tcp"]}])
async def test_any_of_the_three_fields_declares_a_health_check(
    organization: Organization, field: dict[str, object]
) -> None:
    vm_id = await running(organization, **field)
    await happens(organization, vm_id, "unhealthy")
    assert (await record(organization, vm_id))["statusReason"].startswith("The health check of port ")


async def test_what_is_not_checked_cannot_fail_a_check(organization: Organization) -> None:
    unhealthy = {"event": "unhealthy"}
    unchecked = await running(organization)
    answer = await organization.server.control("POST", f"/workloads/{unchecked}/events", unhealthy)
    assert answer.refusal == (409, "conflict")
    stopped = await running(organization, name="other", healthChecks=["http"])
    await act(organization, stopped, "stop")
    answer = await organization.server.control("POST", f"/workloads/{stopped}/events", unhealthy)
    assert answer.refusal == (409, "conflict")
    pod = await create(organization, "pod")
    answer = await organization.server.control("POST", f"/workloads/{pod['id']}/events", unhealthy)
    assert answer.refusal == (400, "invalid_request")


@pytest.mark.parametrize("event", ["exit", "unhealthy"])
async def test_what_cannot_happen_to_a_vm_that_starts_is_refused_with_the_status_of_its_record(
    organization: Organization, event: str
) -> None:
    vm = await create(organization, healthChecks=["http"])
    answer = await organization.server.control("POST", f"/workloads/{vm['id']}/events", {"event": event})
    assert answer.refusal == (409, "conflict")
    assert f" that is {await status(organization, vm['id'])} " in answer.body["error"]


async def test_only_workloads_that_exist_have_a_log(organization: Organization) -> None:
    assert (await organization.server.control("GET", "/workloads/none/logs")).refusal == (404, "not_found")
    pod = await create(organization, "pod")
    assert await organization.server.ok("GET", f"/workloads/{pod['id']}/logs") == {"items": []}
