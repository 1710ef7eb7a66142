"""Every operation of the management API in the client's table against the local cloud, over real HTTP."""

import pytest

from relay_client import OPERATIONS, Cloud, Forbidden, NotFound, list_clusters, listing
from relay_client import operations as op
from relay_wire.billing import AutoRechargeUpdate
from relay_wire.clusters import ClusterCreate, ClusterScale
from relay_wire.pods import PodCreate
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


async def billing(cloud: Cloud) -> None:
    assert (await cloud.call(op.GET_BALANCE)).available_cents == 100_000
    usage = await cloud.call(op.GET_CURRENT_USAGE)
    assert (usage.usage_cents, usage.breakdown) == (0, [])
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


async def vms(cloud: Cloud) -> None:
    made = await cloud.call(op.CREATE_VM, VmCreate(name="box", gpu_model_id="h100", gpu_count=1))
    assert made.name == "box"
    await cloud.call(op.TERMINATE_VM, id=made.id)


async def clusters(cloud: Cloud, control: Control) -> None:
    wanted = ClusterCreate(
        name="llm", gpu_model_id="h100", gpus_per_replica=1, replica_count=2, image_url="busybox", container_port=8000
    )
    made = await cloud.call(op.CREATE_CLUSTER, wanted)
    assert made.name == "llm"
    other = await cloud.call(op.CREATE_CLUSTER, wanted.model_copy(update={"name": "other"}))
    listed = await list_clusters(cloud, limit=1)
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
    assert (await list_clusters(cloud)).items == ()


async def ssh_keys(cloud: Cloud) -> None:
    made = await cloud.call(op.CREATE_SSH_KEY, SshKeyCreate(name="laptop", public_key=PUBLIC_KEY))
    assert [key.id for key in (await cloud.call(op.LIST_SSH_KEYS)).items] == [made.id]
    vm = await cloud.call(op.CREATE_VM, VmCreate(name="lent"))
    assert (await cloud.call(op.ATTACH_SSH_KEY, SshKeyAttach(ssh_key_id=made.id), id=vm.id)).id == vm.id
    await cloud.call(op.TERMINATE_VM, id=vm.id)
    await cloud.call(op.DELETE_SSH_KEY, id=made.id)
    assert (await cloud.call(op.LIST_SSH_KEYS)).items == []


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
    await billing(cloud)
    await pods(cloud, control)
    await vms(cloud)
    await clusters(cloud, control)
    await ssh_keys(cloud)
    await webhooks(cloud)
    logged = await control.requests(organization=organization)
    called = {request["operation"] for request in logged}
    assert {
        f"{row.method} {row.path}" for row in OPERATIONS if row is not op.GET_ME and row.api is op.Api.MANAGEMENT
    } <= called
    assert [request["unreadFields"] for request in logged if request["unreadFields"]] == []
