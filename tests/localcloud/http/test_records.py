"""Every record has exactly the fields of section 2, of the types that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.localcloud.support.batches import create as create_batch
from tests.localcloud.support.batches import record as batch_record
from tests.localcloud.support.clusters import detail, running, summary
from tests.localcloud.support.inference import ok as inference_ok
from tests.localcloud.support.receiver import Receiver
from tests.localcloud.support.workloads import (
    act,
    happens,
    new_pod,
    own_node,
    record,
    running_pod,
)

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

Fields = dict[str, type]

API_KEY: Fields = {"id": str, "name": str, "keyPrefix": str, "scopes": list, "createdAt": str}
API_KEY_LATER: Fields = {"expiresAt": str, "lastUsedAt": str, "revokedAt": str}
API_KEY_CREATED: Fields = API_KEY | {"key": str, "organizationId": str}
WHOAMI: Fields = {"principalType": str, "organizationId": str, "organizationName": str, "scopes": list}
BALANCE: Fields = {
    "balanceCents": int,
    "availableCents": int,
    "accruedUsageCents": int,
    "currentMonthUsageCents": int,
    "minDepositCents": int,
    "transactions": list,
}
USAGE: Fields = {
    "usageCents": int,
    "usageHours": float,
    "breakdown": list,
    "burnPerHourCents": int,
    "autoStopFloorCents": int,
    "projectedRunwayHours": float,
}
CPU_PRICE: Fields = {"resourceSize": str, "pricePerHourCents": int, "vcpu": int, "ramMb": int}
CLASS_AVAILABILITY: Fields = {
    "totalGpus": int,
    "freeGpus": int,
    "maxPlaceableGpus": int,
    "placeableGpuCounts": list,
    "spotFreeGpus": int,
    "spotPlaceableGpuCounts": list,
    "nodes": list,
}
CREATED: Fields = {"id": str, "name": str, "status": str}
RECORD: Fields = CREATED | {
    "organizationId": str,
    "gpuModelId": str,
    "gpuCount": int,
    "endpointUrl": str,
    "public": bool,
    "createdAt": str,
    "tier": str,
    "gpuModelName": str,
    "pricePerHourCents": int,
    "serviceType": str,
    "managedBy": str,
    "capabilityTier": str,
    "imageUrl": str,
}
RECORD_OF_A_POD: Fields = RECORD | {"volumeGb": int, "computeClass": str}
RECORD_OF_A_VM: Fields = RECORD | {"resourceSize": str, "diskSizeGb": int}
RECORD_AT_TIMES: Fields = {
    "statusReason": str,
    "provisioningStage": str,
    "resourceSize": str,
    "diskSizeGb": int,
    "computeClass": str,
}
SUMMARY: Fields = {
    "id": str,
    "organizationId": str,
    "name": str,
    "status": str,
    "activeReplicas": int,
    "replicaCount": int,
    "endpointUrl": str,
    "gpuModelId": str,
    "createdAt": str,
}
DETAIL: Fields = {
    "id": str,
    "organizationId": str,
    "name": str,
    "status": str,
    "gpusPerReplica": int,
    "resourceSize": str,
    "replicaCount": int,
    "tier": str,
    "allowFallback": bool,
    "diskSizeGb": int,
    "privileged": bool,
    "replicas": list,
    "createdAt": str,
    "updatedAt": str,
    "deployToken": str,
    "endpointUrl": str,
    "envVars": dict,
    "gpuModel": dict,
    "gpuModelId": str,
    "healthCheckPath": str,
    "healthCheckPort": int,
    "healthChecks": list,
    "imageUrl": str,
    "preferredRegions": list,
    "containerPort": int,
}
DETAIL_AT_TIMES: Fields = {"statusReason": str, "notes": str}
REPLICA: Fields = {
    "id": str,
    "gpuCount": int,
    "status": str,
    "healthy": bool,
    "nvlinkEnabled": bool,
    "createdAt": str,
    "consecutiveFailures": int,
    "diskTotalBytes": int,
    "diskUsedBytes": int,
    "diskUpdatedAt": str,
    "internalIp": str,
    "lastHealthCheckAt": str,
    "nodeHostname": str,
    "nodeId": str,
    "nodeLocation": str,
    "nodeRegion": str,
    "port": int,
    "sshPort": int,
    "startedAt": str,
}
WEBHOOK: Fields = {
    "id": str,
    "name": str,
    "url": str,
    "secretPrefix": str,
    "events": list,
    "enabled": bool,
    "createdAt": str,
}
PAYLOAD: Fields = {"id": str, "type": str, "created_at": str, "data": dict}
BATCH: Fields = {
    "id": str,
    "object": str,
    "endpoint": str,
    "input_file_id": str,
    "completion_window": str,
    "status": str,
    "created_at": int,
    "request_counts": dict,
    "expires_at": int,
}
COUNTS: Fields = {"total": int, "completed": int, "failed": int}
BATCH_USAGE: Fields = {"input_tokens": int, "output_tokens": int, "cost_nano_usd": int}


def _is(shown: dict[str, Any], required: Fields, at_times: Fields | None = None) -> None:
    """All that is required is there, nothing but what the specification names, and all of it of its type."""
    allowed = required | (at_times or {})
    assert required.keys() <= shown.keys() <= allowed.keys(), sorted(required.keys() ^ shown.keys())
    wrong = {name: value for name, value in shown.items() if not _of_type(value, allowed[name])}
    assert wrong == {}


def _of_type(value: object, wanted: type) -> bool:
    if wanted is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


async def test_a_key_as_it_is_created_and_as_it_is_listed(organization: Organization) -> None:
    created = await organization.ok(
        "POST", "/v1/orgs/{org}/api-keys/create", {"name": "ci", "scopes": ["vms:read"], "expiresInSeconds": 3600}
    )
    _is(created, API_KEY_CREATED, API_KEY_LATER)
    await organization.ok("GET", "/v1/whoami", key=created["key"])
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{created['id']}")
    [listed] = [one for one in await organization.ok("GET", "/v1/orgs/{org}/api-keys") if one["id"] == created["id"]]
    _is(listed, API_KEY | API_KEY_LATER)
    assert created["key"].startswith(created["keyPrefix"])
    assert (
        created["createdAt"] == listed["createdAt"] <= listed["lastUsedAt"] <= listed["revokedAt"] < listed["expiresAt"]
    )


async def test_whoami_and_money(organization: Organization) -> None:
    await own_node(organization)
    await running_pod(organization)
    _is(await organization.ok("GET", "/v1/whoami"), WHOAMI)
    balance = await organization.ok("GET", "/v1/orgs/{org}/billing/balance")
    assert balance.pop("monthlySpendLimitCents") is None
    _is(balance, BALANCE)
    _is(await organization.ok("GET", "/v1/orgs/{org}/billing/usage"), USAGE)
    for price in (await organization.ok("GET", "/v1/pricing"))["cpu"]:
        _is(price, CPU_PRICE)


async def test_availability_of_every_model_in_both_modes(organization: Organization) -> None:
    for model in (await organization.ok("GET", "/v1/gpu-availability"))["items"]:
        assert sorted(model) == ["cluster", "gpuModelId", "vm"]
        _is(model["vm"], CLASS_AVAILABILITY | {"tileLattice": list}, {"reservedFreeGpus": int})
        _is(model["cluster"], CLASS_AVAILABILITY, {"reservedFreeGpus": int})


async def test_pods_and_vms(organization: Organization) -> None:
    await own_node(organization)
    pod = await new_pod(organization, name="p")
    _is(pod, RECORD_OF_A_POD, RECORD_AT_TIMES)
    await organization.server.advance(2)
    _is(await record(organization, pod["id"]), RECORD_OF_A_POD, RECORD_AT_TIMES)
    await happens(organization, pod["id"], "fail", reason="the image has no entry point")
    failed = await record(organization, pod["id"])
    _is(failed, RECORD_OF_A_POD | {"statusReason": str}, RECORD_AT_TIMES)
    body = {"name": "v", "gpuModelId": "h100", "gpuCount": 2, "imageUrl": "app:1"}
    created = await organization.ok("POST", "/v1/orgs/{org}/vms/create", body)
    _is(created, CREATED)
    being_made = await record(organization, created["id"])
    _is(being_made, RECORD_OF_A_VM | {"provisioningStage": str}, RECORD_AT_TIMES | {"volumeGb": int})
    _is(await act(organization, created["id"], "terminate"), RECORD_OF_A_VM, RECORD_AT_TIMES | {"volumeGb": int})


async def test_clusters_and_their_replicas(organization: Organization) -> None:
    await own_node(organization)
    cluster_id = await running(
        organization,
        gpusPerReplica=2,
        envVars={"A": "b"},
        healthCheckPath="/health",
        healthCheckPort=8001,
        healthChecks=["http"],
        preferredRegions=["eu-west"],
        containerPort=8000,
    )
    shown = await detail(organization, cluster_id)
    _is(shown, DETAIL, DETAIL_AT_TIMES)
    assert "notes" not in shown, "nothing that a caller can do makes any"
    for replica in shown["replicas"]:
        _is(replica, REPLICA, {"endpointUrl": str})
    _is(await summary(organization, cluster_id), SUMMARY)
    page = await organization.ok("GET", "/v1/orgs/{org}/clusters")
    _is(page, {"items": list}, {"nextCursor": str})
    _is(page["items"][0], SUMMARY)


async def test_webhooks_and_what_they_deliver(organization: Organization, receiver: Receiver) -> None:
    body = {"name": "ops", "url": receiver.url, "events": []}
    created = await organization.ok("POST", "/v1/orgs/{org}/webhooks/create", body)
    _is(created, WEBHOOK | {"secret": str})
    [listed] = (await organization.ok("GET", "/v1/orgs/{org}/webhooks"))["items"]
    _is(listed, WEBHOOK)
    await own_node(organization)
    cluster_id = await running(organization)
    [delivery] = [one for one in receiver.received if one.event["type"] == "cluster.running"]
    _is(delivery.event, PAYLOAD)
    assert delivery.event["data"]["clusterId"] == cluster_id
    assert delivery.headers["x-relay-event"] == "cluster.running"
    assert delivery.headers["x-relay-delivery"]
    assert delivery.headers["x-relay-signature"].startswith("sha256=")


async def test_batches_at_each_stage(organization: Organization) -> None:
    made = await create_batch(organization, [batch_record("a"), batch_record("b", stream=True)], metadata={"k": "v"})
    at_times: Fields = {"model": str, "metadata": dict, "usage": dict, "output_file_id": str, "error_file_id": str}
    _is({name: value for name, value in made.items() if value is not None}, BATCH | {"metadata": dict}, at_times)
    await organization.server.advance(60)
    done = await inference_ok(organization, "GET", f"/v1/batches/{made['id']}")
    shown = {name: value for name, value in done.items() if value is not None}
    _is(shown, BATCH | at_times | {"completed_at": int}, {"in_progress_at": int, "finalizing_at": int})
    _is(shown["request_counts"], COUNTS)
    _is(shown["usage"], BATCH_USAGE)
    page = await inference_ok(organization, "GET", "/v1/batches")
    _is(page, {"object": str, "data": list, "has_more": bool, "first_id": str, "last_id": str})
