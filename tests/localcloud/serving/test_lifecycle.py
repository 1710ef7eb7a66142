"""Deployments from create to gone: replicas, GPUs, money, events (section 2, "Serving deployment")."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.deployments import (
    DEPLOYMENTS,
    change,
    create,
    delete,
    get,
    running,
    status,
    try_change,
    wanted,
)
from tests.localcloud.support.server import Organization
from tests.localcloud.support.workloads import (
    UNTIL_RUNNING,
    free_gpus,
    happens,
    own_node,
    received,
    spent,
    subscribe,
    usage,
)

if TYPE_CHECKING:
    from tests.localcloud.support.receiver import Receiver

H100_CENTS = 249
HOUR = 3600


async def test_a_deployment_is_answered_with_every_field(organization: Organization) -> None:
    asked = {
        "version": "v1",
        "dtype": "bfloat16",
        "quantization": "fp8",
        "maxModelLen": 8192,
        "engineImage": "vllm/vllm-openai:v1",
        "env": {"A": "b"},
        "extraArgs": ["--x"],
        "weightsRef": "weights/echo",
        "nativeFamilies": ["chat_completions", "messages"],
        "maxConcurrencyPerReplica": 4,
        "backendWeight": 3,
        "nodePool": "gold",
        "minPromptBytes": 10,
        "maxPromptBytes": 20,
        "isolated": False,
        "replicaRuntime": "pod",
        "rolloutRole": "",
        "rolloutStrategy": "rolling",
        "maxUnavailable": 2,
    }
    made = await create(organization, **asked)
    now = (await organization.server.ok("GET", "/clock"))["now"]
    assert made.pop("id").startswith("dep_")
    (replica,) = made.pop("replicas")
    assert replica.pop("id").startswith("rep_")
    assert replica.pop("nodeId").startswith("node_")
    assert replica == {
        "status": "provisioning",
        "healthy": False,
        "gpuCount": 1,
        "engineImage": "vllm/vllm-openai:v1",
        "createdAt": now,
    }
    assert made == {
        **wanted(organization, **asked),
        "status": "provisioning",
        "replicasReady": 0,
        "pricePerHourCents": H100_CENTS,
        "createdAt": now,
        "updatedAt": now,
    }


async def test_optional_fields_have_their_defaults_and_null_is_absent(organization: Organization) -> None:
    made = await create(organization, nodePool=None, replicaRuntime=None, nativeFamilies=None, maxUnavailable=None)
    shown = {name: made[name] for name in made if name not in wanted(organization)}
    for name in ("id", "replicas", "createdAt", "updatedAt"):
        del shown[name]
    assert shown == {
        "nativeFamilies": ["chat_completions"],
        "maxConcurrencyPerReplica": 0,
        "backendWeight": 0,
        "nodePool": "community",
        "minPromptBytes": 0,
        "maxPromptBytes": 0,
        "isolated": False,
        "replicaRuntime": "",
        "rolloutRole": "",
        "rolloutStrategy": "blue_green",
        "maxUnavailable": 1,
        "status": "provisioning",
        "replicasReady": 0,
        "pricePerHourCents": H100_CENTS,
    }


async def test_replicas_come_up_on_the_clouds_clock(organization: Organization) -> None:
    made = await create(organization, replicasDesired=2)
    await organization.server.advance(UNTIL_RUNNING - 0.001)
    assert await status(organization, made["id"]) == "provisioning"
    await organization.server.advance(0.001)
    deployment = await get(organization, made["id"])
    assert (deployment["status"], deployment["replicasReady"]) == ("running", 2)
    assert [(replica["status"], replica["healthy"]) for replica in deployment["replicas"]] == [("healthy", True)] * 2
    assert "startedAt" in deployment["replicas"][0]


async def test_deployments_are_listed_newest_first_in_pages(organization: Organization, other: Organization) -> None:
    made = [await create(organization, replicasDesired=0, acknowledgeLaneJoin=True) for _ in range(3)]
    await create(other, replicasDesired=0, acknowledgeLaneJoin=True)
    first = await organization.ok("GET", f"{DEPLOYMENTS}?limit=2")
    assert [item["id"] for item in first["items"]] == [made[2]["id"], made[1]["id"]]
    rest = await organization.ok("GET", f"{DEPLOYMENTS}?limit=2&cursor={first['nextCursor']}")
    assert rest == {"items": [made[0]]}
    answer = await other.call("GET", f"{DEPLOYMENTS}?cursor={first['nextCursor']}")
    assert answer.refusal == (400, "invalid_request")


async def test_deployments_with_many_replicas_are_few_on_a_page(organization: Organization) -> None:
    await own_node(organization, count=1_500)
    many = {"replicasMax": 500, "replicasDesired": 500, "acknowledgeLaneJoin": True}
    made = [(await organization.ok("POST", DEPLOYMENTS, wanted(organization, **many)))["id"] for _ in range(3)]
    page = await organization.ok("GET", DEPLOYMENTS)
    assert [item["id"] for item in page["items"]] == made[:0:-1]
    rest = await organization.ok("GET", f"{DEPLOYMENTS}?cursor={page['nextCursor']}")
    assert [item["id"] for item in rest["items"]] == made[:1]
    for deployment in made:
        await delete(organization, deployment)


async def test_a_deployment_drains_then_is_404(organization: Organization) -> None:
    free = await free_gpus(organization)
    deployment = await running(organization, gpuCountPerReplica=2)
    assert await free_gpus(organization) == free - 2
    await delete(organization, deployment)
    shown = await get(organization, deployment)
    assert (shown["status"], shown["replicasReady"]) == ("draining", 0)
    assert [replica["status"] for replica in shown["replicas"]] == ["draining"]
    assert (await usage(organization))["burnPerHourCents"] == 0
    assert await free_gpus(organization) == free - 2
    await delete(organization, deployment)
    await organization.server.advance(1)
    assert await status(organization, deployment) == "gone"
    assert await free_gpus(organization) == free
    assert (await organization.ok("GET", DEPLOYMENTS))["items"] == []
    for method, body in (("PATCH", {}), ("DELETE", None)):
        answer = await organization.call(method, f"{DEPLOYMENTS}/{deployment}", body)
        assert answer.refusal == (404, "not_found")


async def test_without_replicas_it_is_idle_and_gone_at_once(organization: Organization) -> None:
    made = await create(organization, replicasDesired=0)
    assert made["status"] == "idle"
    await delete(organization, made["id"])
    assert await status(organization, made["id"]) == "gone"


@pytest.mark.usefixtures("early_in_a_month")
async def test_a_deployment_is_billed_per_replica_and_second(organization: Organization) -> None:
    made = await create(organization, replicasDesired=2, gpuCountPerReplica=2)
    assert made["pricePerHourCents"] == 2 * H100_CENTS
    await organization.server.advance(UNTIL_RUNNING)
    before = await spent(organization)
    assert before == 0
    await organization.server.advance(HOUR)
    shown = await usage(organization)
    assert shown["burnPerHourCents"] == 4 * H100_CENTS
    replica = {
        "resourceId": made["id"],
        "kind": "deployment",
        "name": "echo",
        "gpuModelId": "h100",
        "hours": 1,
        "cents": 2 * H100_CENTS,
    }
    assert shown["breakdown"] == [replica] * 2
    assert await spent(organization) == 4 * H100_CENTS


async def test_scaling_up_starts_more_and_scaling_down_drains_the_youngest(organization: Organization) -> None:
    deployment = await running(organization)
    (first,) = (await get(organization, deployment))["replicas"]
    shown = await change(organization, deployment, replicasDesired=3)
    assert (shown["status"], shown["replicasReady"], len(shown["replicas"])) == ("running", 1, 3)
    await organization.server.advance(UNTIL_RUNNING)
    assert (await get(organization, deployment))["replicasReady"] == 3
    shown = await change(organization, deployment, replicasDesired=1, replicasMax=1)
    assert shown["replicas"][0] == first
    assert [replica["status"] for replica in shown["replicas"][1:]] == ["draining", "draining"]
    await organization.server.advance(1)
    assert [replica["id"] for replica in (await get(organization, deployment))["replicas"]] == [first["id"]]


async def test_scaling_to_nothing_is_idle_and_back(organization: Organization) -> None:
    deployment = await running(organization)
    shown = await change(organization, deployment, replicasDesired=0)
    assert (shown["status"], (await usage(organization))["burnPerHourCents"]) == ("idle", 0)
    assert (await change(organization, deployment, replicasDesired=1))["status"] == "provisioning"
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, deployment) == "running"


async def test_replicas_tell_their_events(organization: Organization, receiver: Receiver) -> None:
    await subscribe(organization, receiver)
    deployment = await running(organization)
    await happens(organization, deployment, "unhealthy", reason="no answer")
    await delete(organization, deployment)
    await organization.server.advance(1)
    events = await received(receiver, lambda events: len(events) == 3)
    assert [event["type"] for event in events] == ["replica.healthy", "replica.unhealthy", "replica.terminated"]
    assert {event["data"]["deploymentId"] for event in events} == {deployment}
    assert events[1]["data"]["reason"] == "no answer"


async def test_a_draining_deployment_takes_no_change(organization: Organization) -> None:
    deployment = await running(organization)
    await delete(organization, deployment)
    for changes in ({"replicasDesired": 2}, {"backendWeight": 1}):
        assert (await try_change(organization, deployment, **changes)).refusal == (409, "conflict")
