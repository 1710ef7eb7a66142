"""Every operation of the management API in the client's table against the local cloud, over real HTTP."""

import pytest

from relay_client import OPERATIONS, Cloud, Forbidden, NotFound, listing
from relay_client import operations as op
from relay_wire.api_keys import ApiKeyCreate
from relay_wire.billing import AutoRechargeUpdate, DepositRequest
from relay_wire.clusters import ClusterCreate, ClusterScale
from relay_wire.inference import BackendCreate, BackendUpdate
from relay_wire.orgs import MemberAdd, MemberUpdate, OrganizationUpdate
from relay_wire.pods import PodCreate
from relay_wire.provider import NodeStatusUpdate, ProvisioningTokenCreate
from relay_wire.registry_credentials import RegistryCredentialCreate
from relay_wire.reservations import ReservationCreate
from relay_wire.runner_pools import RunnerPoolCreate
from relay_wire.serving import DeploymentChange, DeploymentCreate
from relay_wire.snapshots import SnapshotCreate
from relay_wire.ssh_keys import SshKeyAttach, SshKeyCreate
from relay_wire.vms import Visibility, VmCreate
from relay_wire.webhooks import WebhookCreate, WebhookToggle
from tests.support.localcloud import Control, Organization

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl test"
LONG_ENOUGH = 600.0
"""Seconds on the cloud's clock in which every transition ends."""


async def identity(cloud: Cloud, organization: Organization) -> None:
    who = await cloud.call(op.WHOAMI)
    assert (who.principal_type, who.organization_id) == ("api_key", organization.id)
    assert {"vms:write", "clusters:write"} <= set(who.scopes)
    with pytest.raises((Forbidden, NotFound)):  # for people's sessions only
        await cloud.call(op.GET_ME)


async def catalog(cloud: Cloud) -> None:
    models = {model.id for model in (await cloud.call(op.LIST_GPU_MODELS)).items}
    assert "h100" in models
    available = {item.gpu_model_id: item for item in (await cloud.call(op.GET_GPU_AVAILABILITY)).items}
    assert available["h100"].vm is not None
    assert available["h100"].vm.max_placeable_gpus >= 1
    prices = await cloud.call(op.GET_PRICING)
    assert {price.gpu_model_id for price in prices.gpu} == models
    assert prices.cpu
    assert (await cloud.call(op.LIST_LOCATIONS)).items
    assert (await cloud.call(op.LIST_VM_TEMPLATES)).items is not None


async def billing(cloud: Cloud, control: Control, organization: Organization) -> None:
    assert (await cloud.call(op.GET_BALANCE)).available_cents == 100_000
    usage = await cloud.call(op.GET_CURRENT_USAGE)
    assert (usage.usage_cents, usage.breakdown) == (0, [])
    assert [day.usage_cents for day in (await cloud.call(op.LIST_DAILY_USAGE, query={"days": 2})).items] == [0, 0]
    await control.call("POST", f"/orgs/{organization.id}/cards")
    charges = [
        await cloud.call(op.CREATE_DEPOSIT, DepositRequest(amount_cents=1000, idempotency_key="k")) for _ in "ab"
    ]
    assert charges[0] == charges[1]
    wanted = AutoRechargeUpdate(enabled=False, threshold_cents=700, amount_cents=2000)
    assert (await cloud.call(op.PUT_AUTO_RECHARGE, wanted)).threshold_cents == 700
    assert (await cloud.call(op.GET_AUTO_RECHARGE)).amount_cents == 2000


async def pods(cloud: Cloud, control: Control) -> None:
    capacity = {item.gpu_model_id: item for item in (await cloud.call(op.GET_POD_CAPACITY)).items}
    assert capacity["h100"].max_gpu_count >= 1
    wanted = PodCreate(image="busybox", name="trainer", gpu_model_id="h100", env_vars={"EPOCHS": "3"}, volume_gb=100)
    made = await cloud.call(op.CREATE_POD, wanted)
    assert (made.name, made.status) == ("trainer", "deploying")
    await control.advance(LONG_ENOUGH)
    pod = await cloud.call(op.GET_VM, id=made.id)
    assert (pod.id, pod.status, pod.gpu_count, pod.volume_gb, pod.public) == (made.id, "running", 1, 100, False)
    assert pod.endpoint_url
    assert pod.price_per_hour_cents
    await cloud.call(op.SET_VM_VISIBILITY, Visibility(public=True), id=made.id)
    assert (await cloud.call(op.GET_VM, id=made.id)).public is True
    assert made.id in {record.id for record in (await listing(cloud, op.LIST_VMS, limit=1)).items}
    await cloud.call(op.STOP_VM, id=made.id)
    await control.advance(LONG_ENOUGH)
    assert (await cloud.call(op.GET_VM, id=made.id)).status == "stopped"
    assert (await cloud.call(op.RESTART_VM, id=made.id)).status == "deploying"
    await control.advance(LONG_ENOUGH)
    for _ in range(2):  # a second time is no error
        await cloud.call(op.TERMINATE_VM, id=made.id)
    assert (await cloud.call(op.GET_VM, id=made.id)).status == "terminated"
    with pytest.raises(NotFound):
        await cloud.call(op.GET_VM, id="no-such-pod")


async def vms(cloud: Cloud, control: Control) -> None:
    made = await cloud.call(op.CREATE_VM, VmCreate(name="box", gpu_model_id="h100", gpu_count=1))
    assert made.name == "box"
    await control.advance(LONG_ENOUGH)
    assert " boot: " in await cloud.call(op.GET_VM_LOGS, id=made.id, query={"tail": 1})
    await cloud.call(op.TERMINATE_VM, id=made.id)


async def clusters(cloud: Cloud, control: Control) -> None:
    wanted = ClusterCreate(
        name="llm", gpu_model_id="h100", gpus_per_replica=1, replica_count=2, image_url="busybox", container_port=8000
    )
    made = await cloud.call(op.CREATE_CLUSTER, wanted)
    assert made.name == "llm"
    other = await cloud.call(op.CREATE_CLUSTER, wanted.model_copy(update={"name": "other"}))
    listed = await listing(cloud, op.LIST_CLUSTERS, limit=1)
    assert {cluster.id for cluster in listed.items} == {made.id, other.id}
    assert listed.complete
    await control.advance(LONG_ENOUGH)
    assert (await cloud.call(op.GET_CLUSTER, id=made.id)).status == "running"
    detail = await cloud.call(op.GET_CLUSTER_DETAIL, id=made.id)
    assert [replica.healthy for replica in detail.replicas] == [True, True]
    await cloud.call(op.SCALE_CLUSTER, ClusterScale(replica_count=1), id=made.id)
    await control.advance(LONG_ENOUGH)
    assert (await cloud.call(op.GET_CLUSTER_DETAIL, id=made.id)).replica_count == 1
    assert (await cloud.call(op.RESTART_CLUSTER, id=made.id)).id == made.id
    await control.advance(LONG_ENOUGH)
    await cloud.call(op.STOP_CLUSTER, id=made.id)
    await control.advance(LONG_ENOUGH)
    assert (await cloud.call(op.GET_CLUSTER, id=made.id)).status == "stopped"
    for cluster in (made, other):
        await cloud.call(op.TERMINATE_CLUSTER, id=cluster.id)
    await control.advance(LONG_ENOUGH)
    assert (await listing(cloud, op.LIST_CLUSTERS)).items == ()


async def api_keys(cloud: Cloud) -> None:
    made = await cloud.call(op.CREATE_API_KEY, ApiKeyCreate(name="ci", scopes=["vms:read"], expires_in_seconds=3600))
    assert made.key.startswith(made.key_prefix)
    await cloud.call(op.REVOKE_API_KEY, id=made.id)
    listed = {key.id: key for key in (await cloud.call(op.LIST_API_KEYS)).items}
    assert (listed[made.id].name, listed[made.id].scopes) == ("ci", ["vms:read"])
    assert listed[made.id].expires_at
    assert listed[made.id].revoked_at


async def names(cloud: Cloud) -> None:
    await cloud.call(op.UPDATE_ORGANIZATION, OrganizationUpdate(name="Acme", billing_email="a@b.example"))
    changed = await cloud.call(op.GET_ORGANIZATION)
    assert (changed.name, changed.billing_email) == ("Acme", "a@b.example")


async def members(cloud: Cloud, control: Control) -> None:
    email = (await control.call("POST", "/users", {}))["email"]
    added = await cloud.call(op.ADD_MEMBER, MemberAdd(email=email, role="viewer"))
    assert (added.email, added.role) == (email, "viewer")
    await cloud.call(op.UPDATE_MEMBER, MemberUpdate(role="admin"), userId=added.id)
    owner, changed = (await cloud.call(op.LIST_MEMBERS)).items
    assert (owner.role, changed.id, changed.role) == ("owner", added.id, "admin")
    await cloud.call(op.REMOVE_MEMBER, userId=added.id)
    assert (await cloud.call(op.LIST_MEMBERS)).items == [owner]


async def ssh_keys(cloud: Cloud) -> None:
    made = await cloud.call(op.CREATE_SSH_KEY, SshKeyCreate(name="laptop", public_key=PUBLIC_KEY))
    assert [key.id for key in (await cloud.call(op.LIST_SSH_KEYS)).items] == [made.id]
    vm = await cloud.call(op.CREATE_VM, VmCreate(name="lent"))
    await cloud.call(op.ATTACH_SSH_KEY, SshKeyAttach(ssh_key_id=made.id), id=vm.id)
    await cloud.call(op.TERMINATE_VM, id=vm.id)
    await cloud.call(op.DELETE_SSH_KEY, id=made.id)
    assert (await cloud.call(op.LIST_SSH_KEYS)).items == []


async def snapshots(cloud: Cloud, control: Control) -> None:
    vm = await cloud.call(op.CREATE_VM, VmCreate(name="saved"))
    await control.advance(LONG_ENOUGH)
    made = await cloud.call(op.CREATE_SNAPSHOT, SnapshotCreate(name="nightly"), id=vm.id)
    assert (made.name, made.vm_id, made.status) == ("nightly", vm.id, "creating")
    other = await cloud.call(op.CREATE_SNAPSHOT, SnapshotCreate(name="other"), id=vm.id)
    await control.advance(LONG_ENOUGH)
    listed = await listing(cloud, op.LIST_SNAPSHOTS, limit=1, id=vm.id)
    assert [(each.id, each.status) for each in listed.items] == [(other.id, "ready"), (made.id, "ready")]
    await cloud.call(op.DELETE_SNAPSHOT, id=vm.id, snapshotId=other.id)
    assert [each.id for each in (await listing(cloud, op.LIST_SNAPSHOTS, id=vm.id)).items] == [made.id]
    await cloud.call(op.TERMINATE_VM, id=vm.id)


async def registry_credentials(cloud: Cloud) -> None:
    login = {"username": "ada", "password": "s3cret-of-ada"}
    wanted = RegistryCredentialCreate(name="hub", server="ghcr.io", auth_type="basic", credentials=login)
    made = await cloud.call(op.CREATE_REGISTRY_CREDENTIAL, wanted)
    (listed,) = (await cloud.call(op.LIST_REGISTRY_CREDENTIALS)).items
    assert listed == made
    assert (made.name, made.server, made.auth_type) == ("hub", "ghcr.io", "basic")
    await cloud.call(op.DELETE_REGISTRY_CREDENTIAL, id=made.id)
    assert (await cloud.call(op.LIST_REGISTRY_CREDENTIALS)).items == []


async def runner_pools(cloud: Cloud) -> None:
    wanted = RunnerPoolCreate(installation_id=42, name="ci", pool_ram_gb=64, disk_size_gb=200, grant="s3cret-of-ada")
    made = await cloud.call(op.CREATE_RUNNER_POOL, wanted)
    assert (made.installation_id, made.name, made.pool_ram_gb, made.disk_size_gb) == (42, "ci", 64, 200)
    assert (await cloud.call(op.LIST_RUNNER_POOLS)).items == [made]
    await cloud.call(op.DELETE_RUNNER_POOL, id=made.id)
    assert (await cloud.call(op.LIST_RUNNER_POOLS)).items == []


async def reservations(cloud: Cloud, node_id: str, owner: Organization) -> None:
    wanted = ReservationCreate(unit_ids=[f"{node_id}-gpu0"], allowed_org_ids=[owner.id], contract_ref="acme")
    made = await cloud.call(op.CREATE_RESERVATION, wanted, nodeId=node_id)
    assert (made.node_id, made.unit_ids, made.status) == (node_id, wanted.unit_ids, "active")
    for operation, status in ((op.RELEASE_RESERVATION, "released"), (op.RECLAIM_RESERVATION, "active")):
        await cloud.call(operation, nodeId=node_id, id=made.id)
        (row,) = (await cloud.call(op.LIST_RESERVATIONS, nodeId=node_id)).items
        assert (row.id, row.status) == (made.id, status)
    await cloud.call(op.DELETE_RESERVATION, nodeId=node_id, id=made.id)
    assert (await cloud.call(op.LIST_RESERVATIONS, nodeId=node_id)).items == []


async def providers(cloud: Cloud, control: Control, organization: Organization) -> None:
    await control.change_organization(organization.id, provider=True)
    wanted = ProvisioningTokenCreate(name="racks", expires_in_hours=2, node_type="hgx", max_nodes=3, node_pool="eu")
    made = await cloud.call(op.CREATE_PROVISIONING_TOKEN, wanted)
    assert made.token
    (listed,) = (await cloud.call(op.LIST_PROVISIONING_TOKENS)).items
    assert listed.model_dump() == made.model_dump(exclude={"token"})
    assert (listed.node_type, listed.max_nodes, listed.node_pool, listed.used_nodes) == ("hgx", 3, "eu", 0)
    node_id = (await control.add_node("l40s", 2, provisioningToken=made.token, orgId=organization.id))["id"]
    await cloud.call(op.UPDATE_PROVIDER_NODE, NodeStatusUpdate(status="draining"), nodeId=node_id)
    (node,) = (await cloud.call(op.LIST_PROVIDER_NODES, query={"includeRemoved": "true"})).items
    assert (node.id, node.status, len(node.gpus or ()), node.workloads) == (node_id, "draining", 2, 0)
    assert [(row.node_id, row.cents) for row in (await cloud.call(op.GET_PROVIDER_EARNINGS)).items] == [(node_id, 0)]
    await reservations(cloud, node_id, organization)
    await cloud.call(op.UPDATE_PROVIDER_NODE, NodeStatusUpdate(status="removed"), nodeId=node_id)
    await cloud.call(op.REVOKE_PROVISIONING_TOKEN, id=made.id)
    assert (await cloud.call(op.LIST_PROVISIONING_TOKENS)).items == []


async def backends(cloud: Cloud) -> None:
    wanted = BackendCreate(
        provider="openai_compatible",
        ref="llama-3",
        endpoint="https://llama.example/v1",
        native_families=["chat_completions"],
        auth="api_key",
        api_key="s3cret-of-ada",
    )
    made = await cloud.call(op.CREATE_BACKEND, wanted, modelId="llama")
    assert (made.model_id, made.ref, made.auth, made.weight, made.max_concurrency) == (
        "llama",
        "llama-3",
        "api_key",
        0,
        0,
    )
    changed = await cloud.call(op.UPDATE_BACKEND, BackendUpdate(weight=3), modelId="llama", id=made.id)
    assert changed == made.model_copy(update={"weight": 3})
    assert await cloud.call(op.GET_BACKEND, modelId="llama", id=made.id) == changed
    assert (await cloud.call(op.LIST_BACKENDS, modelId="llama")).items == [changed]
    await cloud.call(op.DELETE_BACKEND, modelId="llama", id=made.id)
    with pytest.raises(NotFound):
        await cloud.call(op.LIST_BACKENDS, modelId="llama")


async def deployments(cloud: Cloud, control: Control, organization: Organization) -> None:
    wanted = DeploymentCreate(
        organization_id=organization.id,
        public_model_id="echo",
        engine="vllm",
        served_model_id="echo",
        gpu_model_id="h100",
        gpu_count_per_replica=1,
        replicas_min=0,
        replicas_max=2,
        replicas_desired=1,
        env={"EPOCHS": "3"},
    )
    made = await cloud.call(op.CREATE_DEPLOYMENT, wanted)
    assert (made.status, made.env, made.backend_weight, made.rollout_role) == ("provisioning", {"EPOCHS": "3"}, 0, "")
    await control.advance(LONG_ENOUGH)
    change = DeploymentChange(replicas_desired=2, backend_weight=3)
    assert (await cloud.call(op.CHANGE_DEPLOYMENT, change, id=made.id)).replicas_desired == 2
    await control.advance(LONG_ENOUGH)
    seen = await cloud.call(op.GET_DEPLOYMENT, id=made.id)
    assert (seen.status, seen.replicas_ready, len(seen.replicas), seen.backend_weight) == ("running", 2, 2, 3)
    assert (await listing(cloud, op.LIST_DEPLOYMENTS, limit=1)).items == (seen,)
    await cloud.call(op.DELETE_DEPLOYMENT, id=made.id)
    await control.advance(LONG_ENOUGH)
    with pytest.raises(NotFound):
        await cloud.call(op.GET_DEPLOYMENT, id=made.id)


async def webhooks(cloud: Cloud) -> None:
    wanted = WebhookCreate(name="operator", url="http://127.0.0.1:9/hook", events=["vm.running"])
    made = await cloud.call(op.CREATE_WEBHOOK, wanted)
    assert made.secret.startswith("whsec_")
    (listed,) = (await cloud.call(op.LIST_WEBHOOKS)).items
    assert (listed.id, listed.url, listed.events, listed.enabled) == (made.id, wanted.url, ["vm.running"], True)
    await cloud.call(op.TOGGLE_WEBHOOK, WebhookToggle(enabled=False), id=made.id)
    assert (await cloud.call(op.LIST_WEBHOOKS)).items[0].enabled is False
    await cloud.call(op.TOGGLE_WEBHOOK, WebhookToggle(), id=made.id)  # flips
    assert (await cloud.call(op.LIST_WEBHOOKS)).items[0].enabled is True
    rolled = await cloud.call(op.REGENERATE_WEBHOOK_SECRET, id=made.id)
    assert rolled.secret.startswith("whsec_")
    assert rolled.secret != made.secret
    assert (await cloud.call(op.LIST_WEBHOOK_DELIVERIES, id=made.id)).items == []
    await cloud.call(op.DELETE_WEBHOOK, id=made.id)
    assert (await cloud.call(op.LIST_WEBHOOKS)).items == []


async def test_every_management_operation_is_understood_by_both_sides(
    cloud: Cloud, control: Control, organization: Organization
) -> None:
    await identity(cloud, organization)
    await catalog(cloud)
    await billing(cloud, control, organization)
    await pods(cloud, control)
    await vms(cloud, control)
    await clusters(cloud, control)
    await api_keys(cloud)
    await names(cloud)
    await members(cloud, control)
    await ssh_keys(cloud)
    await snapshots(cloud, control)
    await registry_credentials(cloud)
    await runner_pools(cloud)
    await providers(cloud, control, organization)
    await backends(cloud)
    await deployments(cloud, control, organization)
    await webhooks(cloud)
    logged = await control.requests(organization=organization)
    called = {request["operation"] for request in logged}
    assert {
        f"{row.method} {row.path}" for row in OPERATIONS if row is not op.GET_ME and row.api is op.Api.MANAGEMENT
    } <= called
    assert [request["unreadFields"] for request in logged if request["unreadFields"]] == []
