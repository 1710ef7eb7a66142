"""Replicas of a serving deployment are Pods of its engine image: they answer requests, and are rolled out."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
from aiohttp import web

from relay_localcloud.runtimes.kubernetes.names import CLOUD_ID, REPLICA_ID, name_of
from tests.cluster.kubernetes_runtime.groups import left, removed, serves, told
from tests.cluster.kubernetes_runtime.served import own_address
from tests.cluster.kubernetes_runtime.stage import now
from tests.support.eventually import eventually
from tests.support.localcloud import CloudRefusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.cluster.kubernetes_runtime.served import Served
    from tests.cluster.kubernetes_runtime.stage import Json, Stage

DEPLOYMENTS = "/v1/serving/deployments"
SGLANG_PORT = 30000
"""At which the engine listens by itself."""


async def post(stage: Stage, **fields: Any) -> str:
    """The id of a new deployment of one replica with one GPU behind `echo`."""
    counts = {"gpuCountPerReplica": 1, "replicasMin": 0, "replicasMax": 4, "replicasDesired": 1}
    model = {"publicModelId": "echo", "servedModelId": "echo", "engine": "sglang", "engineImage": "engine:1"}
    body = {"organizationId": stage.organization.id, "gpuModelId": "h100", **model, **counts, **fields}
    return str((await stage.organization.call("POST", DEPLOYMENTS, body))["id"])


async def get(stage: Stage, deployment_id: str) -> Json:
    found: Json = await stage.organization.call("GET", f"{DEPLOYMENTS}/{deployment_id}")
    return found


async def becomes(stage: Stage, deployment_id: str, status: str, words: str = "") -> Json:
    """The deployment once it has this status and a reason with these words, or none."""
    return await told(lambda: get(stage, deployment_id), status, words)


async def replicas(stage: Stage, deployment_id: str, image: str = "engine:1") -> list[str]:
    """Its replicas of an image that stay, once each has a Pod of it."""
    found = (await get(stage, deployment_id))["replicas"]
    ids = [each["id"] for each in found if each["engineImage"] == image and each["status"] != "draining"]
    for replica_id in ids:
        assert (await stage.pod(replica_id))["spec"]["containers"][0]["image"] == image
    return ids


async def running(stage: Stage, **fields: Any) -> tuple[str, list[str]]:
    """A deployment that runs, and its replicas."""
    deployment_id = await post(stage, **fields)
    ids = await replicas(stage, deployment_id)
    await serves(stage, *ids)
    await becomes(stage, deployment_id, "running")
    return deployment_id, ids


@asynccontextmanager
async def engine(address: str) -> AsyncIterator[list[Json]]:
    """A server as an engine image has it, at its port; what it was asked."""
    asked: list[Json] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/v1/chat/completions"
        body = json.loads(await request.read())
        asked.append(body)
        message = {"role": "assistant", "content": "from a container"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        return web.json_response({"id": "1", "object": "chat.completion", "choices": [choice], "usage": usage})

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()

    async def listens() -> bool:
        try:
            await web.TCPSite(runner, address, SGLANG_PORT).start()
        except OSError:
            return False
        return True

    await eventually(listens, what=f"nobody else listens at {SGLANG_PORT}")
    yield asked
    await runner.cleanup()


async def test_requests_and_batches_are_answered_by_a_healthy_replica(served: Served) -> None:
    served.address = own_address()
    async with engine(served.address) as asked:
        deployment_id, (one, other) = await running(
            served, replicasDesired=2, servedModelId="echo", backendWeight=1, env={"A": "b"}, extraArgs=["--tp", "1"]
        )
        pod = await served.pod(one)
        labels, container = pod["metadata"]["labels"], pod["spec"]["containers"][0]
        assert (labels[CLOUD_ID], labels[REPLICA_ID]) == (deployment_id, one)
        assert (container["args"], container["readinessProbe"]["httpGet"]["path"]) == (["--tp", "1"], "/health")
        await served.kubelet_says(one, state={"running": {"startedAt": now()}})
        await becomes(served, deployment_id, "degraded", f"Failing health checks: {one}.")
        chat = {"model": "echo", "messages": [{"role": "user", "content": "say it"}]}
        headers = {"Authorization": f"Bearer {served.organization.api_key}"}
        async with aiohttp.ClientSession(served.cloud.inference_url, headers=headers) as session:
            async with session.post("/v1/chat/completions", json=chat) as reply:
                said = await reply.json()
            assert said["choices"][0]["message"]["content"] == "from a container", said
            assert reply.headers["x-relay-replica"] == other
            record = {"custom_id": "r", "method": "POST", "url": "/v1/chat/completions", "body": chat}
            wanted = {"endpoint": "/v1/chat/completions", "requests": [record]}
            async with session.post("/v1/batches", json=wanted) as reply:
                batch_id = (await reply.json())["id"]

            async def batch() -> Json:
                async with session.get(f"/v1/batches/{batch_id}") as reply:
                    found: Json = await reply.json()
                    return found

            done = await eventually(batch, lambda seen: seen["status"] == "completed", what="the batch is done")
            assert done["request_counts"] == {"total": 1, "completed": 1, "failed": 0}
        assert [each["model"] for each in asked] == ["echo", "echo"]


async def test_another_image_is_rolled_out_one_replica_after_another(stage: Stage) -> None:
    deployment_id, ids = await running(stage, replicasDesired=2, rolloutStrategy="rolling")
    path = f"{DEPLOYMENTS}/{deployment_id}"
    await stage.organization.call("PATCH", path, {"engineImage": "engine:2"})
    (first,) = await replicas(stage, deployment_id, "engine:2")
    (stays,) = await replicas(stage, deployment_id, "engine:1")
    (goes,) = set(ids) - {stays}
    await removed(stage, goes)
    await serves(stage, first)

    async def of_the_new() -> list[str]:
        return await replicas(stage, deployment_id, "engine:2")

    both = await eventually(of_the_new, lambda seen: len(seen) == 2, what="the other one is replaced")
    await removed(stage, stays)
    await serves(stage, *(set(both) - {first}))
    found = await becomes(stage, deployment_id, "running")
    assert {each["id"] for each in found["replicas"]} == set(both)


async def test_a_deployment_that_is_deleted_is_gone_once_its_pods_are_also_after_kills(stage: Stage) -> None:
    await stage.end()
    await stage.start(reconciling=False)
    deployment_id = await post(stage, env={"A": "b"}, replicasDesired=2)
    await stage.end()
    await stage.start()
    one, other = await replicas(stage, deployment_id)
    await stage.end()
    await serves(stage, one, other)
    await stage.start()
    await becomes(stage, deployment_id, "running")
    await stage.end()
    await stage.start(reconciling=False)
    await stage.organization.call("DELETE", f"{DEPLOYMENTS}/{deployment_id}")
    await stage.end()
    await stage.start()
    await removed(stage, one)
    await stage.leaves(other)
    await eventually(stage.free, lambda free: free == 7, what="the cloud saw that one of them is gone")
    assert (await get(stage, deployment_id))["status"] == "draining"
    await stage.end()
    await stage.kubelet_removes(name_of(other))
    await stage.start()

    async def is_gone() -> bool:
        try:
            await get(stage, deployment_id)
        except CloudRefusal as refusal:
            return refusal.status == 404
        return False

    await eventually(is_gone, what="the deployment is gone")
    await eventually(lambda: left(stage), lambda names: names == [])
    (billed,) = await stage.organization.billed()
    assert billed["resourceId"] == deployment_id


async def test_why_a_replica_does_not_serve_is_said_in_the_kubelets_words(stage: Stage) -> None:
    deployment_id = await post(stage)
    (replica_id,) = await replicas(stage, deployment_id)
    await stage.scheduler_binds(replica_id)
    waiting = {"reason": "ErrImagePull", "message": "engine:1: not found"}
    await stage.kubelet_says(replica_id, phase="Pending", state={"waiting": waiting})
    await becomes(stage, deployment_id, "provisioning", f"{replica_id}: engine:1: not found")
    await stage.kubelet_runs(replica_id)
    await becomes(stage, deployment_id, "running")


async def test_a_deployment_needs_an_image(stage: Stage) -> None:
    with pytest.raises(CloudRefusal, match="422 unprocessable: engineImage: "):
        await post(stage, engineImage=None)
