"""Turns go on side by side: whatever one of them waits for, the others and the nodes do not."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from relay_kube.kube import PODS, Kube
from relay_localcloud.runtimes.kubernetes.names import name_of
from relay_localcloud.runtimes.kubernetes.reconcile import AT_ONCE
from relay_localcloud.workloads.workloads import WORKLOADS
from tests.cluster.kubernetes_runtime import groups
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.process import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pydantic import JsonValue

    from relay_kube.kube import ApiAccess, JsonObject, ResourceType
    from tests.cluster.kubernetes_runtime.stage import Stage


class Unanswered(Kube):
    """An API server that leaves creates of Pods without an answer until `answers` has one for them."""

    def __init__(self, access: ApiAccess) -> None:
        super().__init__(access)
        self.asked: list[object] = []
        """The names of the Pods, in the order of their creates."""
        self.answers = asyncio.Semaphore(0)

    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        if kind is PODS:
            metadata = body["metadata"]
            assert isinstance(metadata, dict)
            self.asked.append(metadata["name"])
            await self.answers.acquire()
        return await super().create(kind, namespace, body)


async def statuses(stage: Stage) -> list[str]:
    """What the cloud says of its nodes."""
    return [node["status"] for node in (await stage.organization.call("GET", "/_localcloud/nodes"))["items"]]


async def test_requests_without_an_answer_hold_up_neither_nodes_nor_the_turns_that_are_due_the_longest(
    stage: Stage,
) -> None:
    clients: list[Unanswered] = []

    def client(access: ApiAccess) -> Unanswered:
        clients.append(Unanswered(access))
        return clients[0]

    async def asked() -> list[object]:
        return clients[0].asked

    await stage.end()
    stage.client = client
    await stage.start()
    cluster_id = await groups.post(stage, gpuModelId=None, resourceSize="small", replicaCount=AT_ONCE + 2)
    names = [name_of(each["id"]) for each in (await groups.detail(stage, cluster_id))["replicas"]]
    first, (ninth, tenth) = set(names[:AT_ONCE]), names[AT_ONCE:]
    await eventually(asked, lambda seen: set(seen) == first, what="the first ones are asked for")
    await stage.node(cordoned=True)
    await eventually(lambda: statuses(stage), lambda seen: seen == ["draining"])
    clients[0].answers.release()
    await eventually(asked, lambda seen: len(seen) > AT_ONCE, what="the next one is asked for")
    clients[0].answers.release()
    await eventually(asked, lambda seen: len(seen) > AT_ONCE + 1, what="the last one is asked for")
    assert clients[0].asked[AT_ONCE:] == [ninth, tenth]


async def test_a_holder_at_which_the_cloud_fails_holds_up_no_other(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    pod_id = await stage.runs()
    with stage.store.transaction() as tx:
        WORKLOADS.change(tx, pod_id, request="{}")  # as of a former version, say, that this one cannot read
    await stage.kubelet_removes(name_of(pod_id))
    await stage.becomes(await stage.runs(), "running")
    assert f"{pod_id}: the local cloud fails at this" in caplog.text


@asynccontextmanager
async def webhook_down(stage: Stage) -> AsyncIterator[None]:
    """The API server creates no Pod for the organization meanwhile: a webhook that it must ask is down."""
    path, name = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", f"down-{stage.namespace}"
    webhook = {
        "name": "down.gpurelay.dev",
        "clientConfig": {"url": f"https://127.0.0.1:{free_port()}/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": stage.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    manifest = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    await stage.kube.call("POST", path, {**manifest, "metadata": {"name": name}, "webhooks": [webhook]})

    async def is_down() -> bool:
        spec = {"containers": [{"name": "a", "image": "a"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "a-"}, "spec": spec}
        pods = f"/api/v1/namespaces/{stage.namespace}/pods"
        try:
            await stage.kube.call("POST", pods, pod, params={"dryRun": "All"})
        except KubeError as refusal:
            return refusal.status == 500
        return False

    try:
        await eventually(is_down, what="the API server asks the webhook")
        yield
    finally:
        await stage.kube.call("DELETE", f"{path}/{name}")


async def test_that_the_api_server_fails_is_said_and_the_pod_is_made_once_it_does_not(stage: Stage) -> None:
    await stage.runs()  # so there is a namespace
    async with webhook_down(stage):
        pod_id = await stage.post()
        await stage.becomes(pod_id, "deploying", "InternalError: Internal error occurred: failed calling webhook")
    await stage.pod(pod_id)


async def test_what_the_disk_does_not_take_is_tried_again(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    async def said() -> str:
        return caplog.text

    caplog.set_level(logging.INFO, "relay_localcloud.runtimes.kubernetes.reconcile")
    pod_id = await stage.post()
    await stage.pod(pod_id)
    await stage.scheduler_binds(pod_id)
    with stage.read_only():
        await stage.kubelet_runs(pod_id)
        await eventually(said, lambda text: f"{pod_id}: Nothing was changed" in text)
        await stage.node(ready=False)
        await eventually(said, lambda text: "What Kubernetes shows waits for the disk" in text)
    await eventually(lambda: statuses(stage), lambda seen: seen == ["offline"])
    await stage.node()
    await stage.becomes(pod_id, "running")
