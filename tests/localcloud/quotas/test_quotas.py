"""What an organization has at most: below, at and above each limit; at every limit it reads, stops and ends."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.counted import COUNTED
from relay_localcloud.quotas.quotas import QUOTAS, REQUESTS_PER_SECOND
from tests.localcloud.support import batches, clusters, deployments
from tests.localcloud.support.inference import call
from tests.localcloud.support.people import session_of, sign_up
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import UNTIL_RUNNING, act, new_pod, own_node, set_organization, status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Answer, Organization, Server

    Make = Callable[[Organization, int], Awaitable[Answer]]

PUBLIC_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGJyzDW6yGfNUsqp1k0y0O7vNUJ0lFZ6zRWl1L1yTnK5 a@b"
POD = {"image": "app:1", "gpuModelId": "l40s"}
GPU_CLUSTER = {"name": "gpus", "gpuModelId": "l40s", "gpusPerReplica": 1}
FILE = batches.jsonl([batches.record("r")])


async def quota(organization: Organization, name: str) -> Any:
    """The quota as everybody of the organization sees it."""
    items = (await organization.ok("GET", "/v1/orgs/{org}/quotas"))["items"]
    return next(item for item in items if item["name"] == name)


async def bound(organization: Organization, name: str, more: int) -> int:
    """Leave room for so much more; the limit."""
    limit = (await quota(organization, name))["used"] + more
    await set_organization(organization, quotas={name: limit})
    return int(limit)


def posts(path: str, body: dict[str, Any], *, named: bool = True) -> Make:
    """Makes one by a POST, each with a name of its own."""

    async def make(organization: Organization, number: int) -> Answer:
        return await organization.call("POST", path, {**body, "name": f"n{number}"} if named else body)

    return make


def ended(make: Make, end: str) -> Make:
    """Makes one, and ends it: what has ended is counted, too."""

    async def make_and_end(organization: Organization, number: int) -> Answer:
        answer = await make(organization, number)
        if answer.status == 200:
            method, _, path = end.partition(" ")
            ask = call if path.startswith("/v1/files") else type(organization).call
            assert (await ask(organization, method, path.format(id=answer.body["id"]))).status in {200, 204}
        return answer

    return make_and_end


async def make_member(organization: Organization, number: int) -> Answer:
    person = await sign_up(organization.server, email=f"{number}@{organization.id.replace('_', '-')}.example")
    return await organization.call("POST", "/v1/orgs/{org}/members/add", {"email": person.email, "role": "viewer"})


async def make_invite(organization: Organization, number: int) -> Answer:
    invited = {"email": f"{number}@somebody.example", "role": "viewer"}
    return await organization.server.control("POST", f"/orgs/{organization.id}/invites", invited)


async def make_usage_record(organization: Organization, number: int) -> Answer:
    answer = await make_vm(organization, number)
    await organization.server.advance(UNTIL_RUNNING)
    return answer


async def make_deployment(organization: Organization, _: int) -> Answer:
    return await deployments.try_create(organization, gpuModelId="l40s", acknowledgeLaneJoin=True)


async def make_replica(organization: Organization, number: int) -> Answer:
    """A cluster with one replica at first, then one more each time."""
    listed = (await organization.ok("GET", "/v1/orgs/{org}/clusters"))["items"]
    if listed:
        path = f"/v1/clusters/{listed[0]['id']}/scale"
        return await organization.call("POST", path, {"replicaCount": listed[0]["replicaCount"] + 1})
    return await organization.call("POST", "/v1/orgs/{org}/clusters/create", {**GPU_CLUSTER, "name": f"n{number}"})


async def make_file(organization: Organization, _: int) -> Answer:
    return await batches.post_file(organization, batches.multipart(FILE))


async def make_batch(organization: Organization, number: int) -> Answer:
    body = {"requests": [batches.record(f"r{number}")], "endpoint": "/v1/chat/completions"}
    return await call(organization, "POST", "/v1/batches", body)


async def make_ended_batch(organization: Organization, number: int) -> Answer:
    answer = await make_batch(organization, number)
    await organization.server.advance(60)
    return answer


CREDENTIAL = {"server": "r.example", "authType": "basic", "credentials": {"username": "u", "password": "p"}}
BACKEND = {
    "provider": "openai_compatible",
    "ref": "m",
    "endpoint": "http://127.0.0.1:9/v1",
    "nativeFamilies": ["chat_completions"],
}
make_pod = posts("/v1/pods", POD)
make_vm = posts("/v1/orgs/{org}/vms/create", {})
make_cluster = posts("/v1/orgs/{org}/clusters/create", {})
make_key = posts("/v1/orgs/{org}/api-keys/create", {})

MAKES: dict[str, Make] = {
    "pods": make_pod,
    "terminatedPods": ended(make_pod, "POST /v1/vms/{id}/terminate"),
    "vms": make_vm,
    "terminatedVms": ended(make_vm, "POST /v1/vms/{id}/terminate"),
    "clusters": make_cluster,
    "terminatedClusters": ended(make_cluster, "POST /v1/clusters/{id}/terminate"),
    "replicas": make_replica,
    "servingDeployments": make_deployment,
    "gpus": make_replica,
    "files": make_file,
    "deletedFiles": ended(make_file, "DELETE /v1/files/{id}"),
    "batches": make_batch,
    "endedBatches": make_ended_batch,
    "webhooks": posts("/v1/orgs/{org}/webhooks/create", {"url": "http://127.0.0.1:9/", "events": ["vm.running"]}),
    "apiKeys": make_key,
    "sshKeys": posts("/v1/orgs/{org}/ssh-keys/create", {"publicKey": PUBLIC_KEY}),
    "registryCredentials": posts("/v1/orgs/{org}/registry-credentials/create", CREDENTIAL),
    "runnerPools": posts("/v1/orgs/{org}/runner-pools", {"installationId": 1, "poolRamGb": 8}),
    "backends": posts("/v1/inference/models/mine/backends", BACKEND, named=False),
    "provisioningTokens": posts("/v1/orgs/{org}/provider/tokens", {}),
    "members": make_member,
    "invites": make_invite,
    "usageRecords": make_usage_record,
}
"""How one more of each comes to be; the quotas of bytes have tests of their own."""


def refusal(answer: Answer, name: str, limit: int) -> tuple[int, str]:
    """Status and code, the sentence having named the quota and its limit."""
    body = answer.body
    said = body["error"] if isinstance(body["error"], dict) else {"message": body["error"], "code": body["code"]}
    assert said["message"].startswith(f"The quota {name} of this organization is {limit}, and "), said
    return answer.status, said["code"]


@pytest.mark.parametrize("name", MAKES)
async def test_one_below_and_at_a_quota_is_made_and_one_above_is_refused(organization: Organization, name: str) -> None:
    if name == "provisioningTokens":
        await set_organization(organization, provider=True)
    await own_node(organization, "l40s")
    limit = await bound(organization, name, 2)
    for number in (1, 2):
        answer = await MAKES[name](organization, number)
        assert answer.status == 200, answer.raw
    before = await organization.server.ok("GET", f"/orgs/{organization.id}/quotas")
    assert {"name": name, "limit": limit, "used": limit} in before["items"]
    assert refusal(await MAKES[name](organization, 3), name, limit) == (403, "QUOTA_EXCEEDED")
    after = (await organization.ok("GET", "/v1/orgs/{org}/quotas"))["items"]
    assert after == before["items"]
    await bound(organization, name, 1)
    assert (await MAKES[name](organization, 4)).status == 200


async def test_there_is_room_for_more_webhooks_than_a_page_shows(organization: Organization) -> None:
    """With the default limits."""
    for number in range(201):
        assert (await MAKES["webhooks"](organization, number)).status == 200
    path = "/v1/orgs/{org}/webhooks?limit=200"
    shown = await organization.ok("GET", path)
    rest = await organization.ok("GET", f"{path}&cursor={shown['nextCursor']}")
    assert (len(shown["items"]), len(rest["items"])) == (200, 1)


@pytest.mark.parametrize(
    ("path", "body", "size"),
    [("/v1/pods", POD, "volumeGb"), ("/v1/orgs/{org}/vms/create", {"name": "vm"}, "diskSizeGb")],
)
async def test_the_volume_of_a_pod_and_the_disk_of_a_vm_count_until_it_ends(
    organization: Organization, path: str, body: dict[str, object], size: str
) -> None:
    await own_node(organization, "l40s")
    limit = await bound(organization, "volumeGb", 50)
    made = await organization.ok("POST", path, {**body, "name": "a", size: 40})
    another = {**body, "name": "b", size: 11}
    assert refusal(await organization.call("POST", path, another), "volumeGb", limit) == (403, "QUOTA_EXCEEDED")
    await organization.ok("POST", f"/v1/vms/{made['id']}/terminate")
    await organization.ok("POST", path, another)


def test_every_quota_is_counted_and_met_here() -> None:
    assert set(COUNTED) == set(QUOTAS)
    assert {quota.name for quota in QUOTAS} == {*MAKES, "requestBytes", "fileBytes", "volumeGb", "requestsPerSecond"}


async def make_file_of(organization: Organization, size: int) -> Answer:
    return await batches.post_file(organization, batches.multipart(b"x" * size))


async def make_pod_of(organization: Organization, size: int) -> Answer:
    return await organization.call("POST", "/v1/pods", {**POD, "envVars": {"E": "x" * size}})


@pytest.mark.parametrize(("name", "make"), [("fileBytes", make_file_of), ("requestBytes", make_pod_of)])
async def test_bytes_are_bounded_to_the_byte(
    organization: Organization, name: str, make: Callable[[Organization, int], Awaitable[Answer]]
) -> None:
    assert (await make(organization, 10)).status == 200
    each = (await quota(organization, name))["used"]
    limit = await bound(organization, name, 2 * each)
    assert (await make(organization, 9)).status == 200
    assert refusal(await make(organization, 12), name, limit) == (403, "QUOTA_EXCEEDED")
    assert (await make(organization, 11)).status == 200
    assert (await quota(organization, name))["used"] == limit
    assert refusal(await make(organization, 1), name, limit) == (403, "QUOTA_EXCEEDED")


async def used_bytes(organization: Organization) -> int:
    return int((await quota(organization, "requestBytes"))["used"])


async def test_bytes_of_a_cluster_count_for_each_replica_that_is_wanted(organization: Organization) -> None:
    cluster = (await clusters.create(organization, gpuModelId=None, replicaCount=3, envVars={"E": "x" * 1000}))["id"]
    each = await used_bytes(organization) // 3
    assert each > 1000
    limit = await bound(organization, "requestBytes", each)
    scale = f"/v1/clusters/{cluster}/scale"
    refused = await organization.call("POST", scale, {"replicaCount": 5})
    assert refusal(refused, "requestBytes", limit) == (403, "QUOTA_EXCEEDED")
    await organization.ok("POST", scale, {"replicaCount": 4})
    assert await used_bytes(organization) == 4 * each
    await clusters.act(organization, cluster, "stop")
    assert await used_bytes(organization) == each
    await organization.server.advance(60)
    limit = await bound(organization, "requestBytes", 3 * each - 1)
    refused = await organization.call("POST", f"/v1/clusters/{cluster}/restart")
    assert refusal(refused, "requestBytes", limit) == (403, "QUOTA_EXCEEDED")
    await bound(organization, "requestBytes", 3 * each)
    await clusters.act(organization, cluster, "restart")
    assert await used_bytes(organization) == 4 * each
    await clusters.act(organization, cluster, "terminate")
    assert await used_bytes(organization) == each


async def test_a_cluster_is_refused_whose_replicas_exceed_the_quota_together(organization: Organization) -> None:
    limit = await bound(organization, "requestBytes", 10_000)
    body = {"name": "c", "envVars": {"E": "x" * 1000}}
    path = "/v1/orgs/{org}/clusters/create"
    refused = await organization.call("POST", path, {**body, "replicaCount": 10})
    assert refusal(refused, "requestBytes", limit) == (403, "QUOTA_EXCEEDED")
    await organization.ok("POST", path, {**body, "replicaCount": 9})


async def test_the_login_of_a_registry_counts_for_each_replica_too(organization: Organization) -> None:
    secrets = {"username": "u", "password": "p" * 1000}
    path = "/v1/orgs/{org}/registry-credentials/create"
    credential = await organization.ok("POST", path, {**CREDENTIAL, "name": "r", "credentials": secrets})
    await clusters.create(organization, gpuModelId=None, replicaCount=3, registryCredentialId=credential["id"])
    used = await used_bytes(organization)
    assert used > 3000
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/registry-credentials/{credential['id']}")
    assert await used_bytes(organization) == used


async def test_bytes_of_a_deployment_count_for_each_replica_that_is_wanted(organization: Organization) -> None:
    await own_node(organization, "l40s")
    settings = {"gpuModelId": "l40s", "rolloutStrategy": "rolling", "replicasDesired": 2, "env": {"E": "x" * 100}}
    deployment = await deployments.running(organization, **settings)
    used = await used_bytes(organization)
    limit = await bound(organization, "requestBytes", 100)
    for change in ({"env": {"E": "x" * 151}}, {"replicasDesired": 3}):
        answer = await deployments.try_change(organization, deployment, **change)
        assert refusal(answer, "requestBytes", limit) == (403, "QUOTA_EXCEEDED")
    await deployments.change(organization, deployment, env={"E": "x" * 150})
    assert await used_bytes(organization) == used + 100
    await deployments.change(organization, deployment, env={"E": "x" * 200}, replicasDesired=1)
    assert await used_bytes(organization) == used // 2 + 100
    await bound(organization, "requestBytes", 0)
    await deployments.change(organization, deployment, backendWeight=10)


async def test_a_file_over_the_quota_leaves_nothing_behind(organization: Organization) -> None:
    limit = await bound(organization, "fileBytes", 100)
    before = (await organization.server.ok("GET", "/export"))["files"]
    assert refusal(await make_file_of(organization, 101), "fileBytes", limit) == (403, "QUOTA_EXCEEDED")
    assert (await organization.server.ok("GET", "/export"))["files"] == before
    assert (await quota(organization, "fileBytes"))["used"] == 0


async def test_at_every_quota_what_is_there_is_read_stopped_and_ended(organization: Organization) -> None:
    await own_node(organization, "l40s")
    pod, vm = await new_pod(organization, gpuModelId="l40s"), await make_vm(organization, 1)
    cluster, file = await make_cluster(organization, 1), await make_file(organization, 1)
    batch, key = await make_batch(organization, 1), await make_key(organization, 1)
    await organization.server.advance(UNTIL_RUNNING)
    await set_organization(organization, quotas={quota.name: 0 for quota in QUOTAS if quota is not REQUESTS_PER_SECOND})
    for path in (f"/v1/vms/{pod['id']}", f"/v1/vms/{vm.body['id']}", f"/v1/clusters/{cluster.body['id']}"):
        await organization.ok("GET", path)
        await organization.ok("POST", f"{path}/stop")
        await organization.ok("POST", f"{path}/terminate")
    await organization.ok("GET", "/v1/orgs/{org}/quotas")
    await organization.ok("DELETE", f"/v1/orgs/{{org}}/api-keys/{key.body['id']}")
    assert (await call(organization, "DELETE", f"/v1/files/{file.body['id']}")).status == 200
    await organization.server.advance(60)
    assert (await batches.batch_of(organization, batch.body["id"]))["status"] == "completed"


async def test_a_restart_takes_gpus_of_the_quota_again(organization: Organization) -> None:
    await own_node(organization, "l40s")
    stopped = (await new_pod(organization, gpuModelId="l40s"))["id"]
    await organization.server.advance(UNTIL_RUNNING)
    await act(organization, stopped, "stop")
    await organization.server.advance(1)
    assert (await quota(organization, "gpus"))["used"] == 0
    limit = await bound(organization, "gpus", 0)
    answer = await organization.call("POST", f"/v1/vms/{stopped}/restart")
    assert refusal(answer, "gpus", limit) == (403, "QUOTA_EXCEEDED")
    assert await status(organization, stopped) == "stopped"
    await bound(organization, "gpus", 1)
    await act(organization, stopped, "restart")
    assert (await quota(organization, "gpus"))["used"] == 1


async def test_nothing_starts_again_whose_usage_could_not_be_kept(organization: Organization) -> None:
    stopped = (await make_vm(organization, 1)).body["id"]
    cluster = (await make_cluster(organization, 1)).body["id"]
    await own_node(organization, "l40s")
    deployment = await deployments.running(organization, gpuModelId="l40s", rolloutStrategy="rolling")
    await act(organization, stopped, "stop")
    await clusters.act(organization, cluster, "stop")
    await organization.server.advance(60)
    limit = await bound(organization, "usageRecords", 0)
    for path, body in (
        (f"/v1/vms/{stopped}/restart", {}),
        (f"/v1/clusters/{cluster}/restart", {}),
        ("/v1/pods", POD),
        ("/v1/orgs/{org}/clusters/create", {"name": "another"}),
    ):
        assert refusal(await organization.call("POST", path, body), "usageRecords", limit) == (403, "QUOTA_EXCEEDED")
    path = f"{deployments.DEPLOYMENTS}/{deployment}"
    assert refusal(await organization.call("PATCH", path, {"version": "2"}), "usageRecords", limit)[0] == 403
    assert (await organization.call("PATCH", path, {"backendWeight": 2})).status == 200
    await bound(organization, "usageRecords", 1)
    await act(organization, stopped, "restart")


async def test_what_an_organization_is_given_counts_for_it(organization: Organization) -> None:
    server = organization.server
    receiver = await server.organization()
    pod = (await new_pod(organization, gpuModelId="l40s"))["id"]
    offer = await server.ok("POST", "/transfers", {"workloadId": pod, "toOrganizationId": receiver.id})
    await set_organization(receiver, quotas={"pods": 0})
    answer = await receiver.call("POST", f"/v1/transfers/{offer['id']}/accept", {})
    assert refusal(answer, "pods", 0) == (403, "QUOTA_EXCEEDED")
    await set_organization(receiver, quotas={"pods": None})
    await receiver.ok("POST", f"/v1/transfers/{offer['id']}/accept", {})
    assert [(await quota(each, "pods"))["used"] for each in (organization, receiver)] == [0, 1]
    assert [(await quota(each, "gpus"))["used"] for each in (organization, receiver)] == [0, 1]


async def test_one_organization_at_its_quota_is_nothing_to_another(organization: Organization) -> None:
    other = await organization.server.organization()
    await set_organization(organization, quotas={"pods": 0})
    assert (await make_pod(organization, 1)).status == 403
    assert (await make_pod(other, 1)).status == 200


async def test_quotas_are_read_with_any_scope_of_the_organization_alone(organization: Organization) -> None:
    poor = await organization.server.organization(scopes=["inference"])
    assert (await poor.call("GET", "/v1/orgs/{org}/quotas")).status == 200
    assert (await poor.call("GET", f"/v1/orgs/{organization.id}/quotas")).refusal == (403, "forbidden")


async def test_a_limit_that_makes_no_sense_is_400_and_changes_nothing(organization: Organization) -> None:
    for quotas in ({"podz": 1}, {"pods": -1}, {"pods": "1"}, {"pods": 10**15 + 1}):
        answer = await organization.server.control("PATCH", f"/orgs/{organization.id}", {"quotas": quotas})
        assert answer.refusal == (400, "invalid_request")
    assert (await quota(organization, "pods"))["limit"] == 20_000
    await set_organization(organization, quotas={"pods": 10**15})
    assert (await quota(organization, "pods"))["limit"] == 10**15
    assert (await organization.server.control("GET", "/orgs/org_none/quotas")).refusal == (404, "not_found")


async def test_what_is_used_is_counted_again_from_a_state_that_is_imported(organization: Organization) -> None:
    await make_pod(organization, 1)
    used = await organization.ok("GET", "/v1/orgs/{org}/quotas")
    document = await organization.server.ok("GET", "/export")
    await make_pod(organization, 2)
    await organization.server.ok("POST", "/import", document)
    assert await organization.ok("GET", "/v1/orgs/{org}/quotas") == used


async def test_limits_and_what_is_used_outlast_a_restart(start_server: StartServer, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*state)
    organization = await server.organization()
    await make_pod(organization, 1)
    await set_organization(organization, quotas={"pods": 1})
    server.kill()
    again = replace(organization, server=start_server(*state))
    assert await quota(again, "pods") == {"name": "pods", "limit": 1, "used": 1}
    assert refusal(await make_pod(again, 2), "pods", 1) == (403, "QUOTA_EXCEEDED")


async def test_the_console_shows_how_much_of_each_quota_is_used(organization: Organization) -> None:
    await make_pod(organization, 1)
    await set_organization(organization, quotas={"pods": 12_345})
    page = await request("GET", f"{organization.server.url}/console/quotas?org={organization.id}")
    assert page.status == 200
    assert "12,345" in page.raw.decode()


async def test_a_batch_that_fills_the_quota_fails_what_is_left_of_it(organization: Organization) -> None:
    records = [batches.record(f"r{number}", "x" * 5_000) for number in range(5)]
    created = await batches.create(organization, records)
    limit = await bound(organization, "fileBytes", 8_000)
    await organization.server.advance(3600)
    batch = await batches.batch_of(organization, created["id"])
    assert (batch["status"], batch["request_counts"]) == ("completed", {"total": 5, "completed": 2, "failed": 3})
    failed = await batches.lines(organization, batch, "error_file_id")
    assert {line["error"]["code"] for line in failed} == {"QUOTA_EXCEEDED"}
    assert limit < (await quota(organization, "fileBytes"))["used"] < limit + 10_000


async def test_nobody_owns_more_than_a_hundred_organizations(server: Server) -> None:
    person = await sign_up(server)
    for number in range(100):
        await person.ok("POST", "/v1/orgs", {"name": f"n{number}"})
    refused = await person.call("POST", "/v1/orgs", {"name": "one more"})
    assert refused.refusal == (403, "QUOTA_EXCEEDED")
    assert len((await person.ok("GET", "/v1/me"))["memberships"]) == 100
    other = await server.organization()
    owner = await session_of(other)
    await owner.ok("POST", f"/v1/orgs/{other.id}/members/add", {"email": person.email, "role": "viewer"})
    raised = await owner.call("PATCH", f"/v1/orgs/{other.id}/members/{person.id}", {"role": "owner"})
    assert raised.refusal == (403, "QUOTA_EXCEEDED")
    await owner.ok("PATCH", f"/v1/orgs/{other.id}/members/{person.id}", {"role": "admin"})
