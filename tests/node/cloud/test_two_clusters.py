"""Who has a GPU cluster has a GPU cloud: what is applied in one cluster runs as containers of another."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from hack.node import image
from hack.node.node import ADDRESS, Node
from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.batch_side import KIND, NAME, batch, complete
from tests.node.cloud.replicas import has_no_pods, serves
from tests.node.cloud.workload_image import IMAGE
from tests.node.gpus import NEEDS_GPUS
from tests.node.release import OPERATOR
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl
from tests.support.manifests import api_key_secret, cloud_account, gpu_pod, ready

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House
    from tests.support.kube import Manifest

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def elsewhere(house: House) -> AsyncIterator[Kube]:
    """Another node, with the operator's chart, and an account of the organization `ml` in its namespace `default`."""
    ports, node = house.ports, await Node.start(f"elsewhere-{os.getpid()}", [image.built("operator")])
    ways = [node.way_out(port) for port in (ports.management, ports.inference)]
    urls = [f"http://{ADDRESS}:{port}" for port in (ports.management, ports.inference)]
    # The cloud calls no webhook in another node: the operator asks.
    values = {"webhook_publicUrl": "", "settings_pollTransitionSeconds": "1"}
    try:
        for way in ways:
            await way.start()
        async with Kube(node.kubeconfig) as kube:
            await kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OPERATOR}})
            release = replace(house.release, cluster=node, kube=kube, kubectl=Kubectl(node.kubeconfig))
            await release.install(cloud_baseUrl=urls[0], cloud_inferenceUrl=urls[1], **values)
            await kube.apply(api_key_secret(house.customer.team.api_key))
            await kube.apply(cloud_account(*urls))
            yield kube
    finally:
        for way in ways:
            await way.stop()
        await node.stop()


async def test_a_gpupod_of_one_cluster_runs_in_another_and_keeps_its_data(customer: Customer, elsewhere: Kube) -> None:
    look = elsewhere.looking_at("GpuPod", "trainer")

    def trainer(power: str) -> Manifest:
        return gpu_pod("trainer", model="h100", image=IMAGE, volumeGb=10, powerState=power)

    await elsewhere.apply(trainer("Running"))
    status = (await eventually(look, ready, what="the GpuPod is Ready") or {})["status"]
    (container,) = await customer.objects("Pod", status["id"])
    assert container["spec"]["nodeName"]
    assert await elsewhere.list("Pod") == []
    assert (await customer.answers(status, "/")).startswith(name_of(status["id"]))
    assert (await customer.ask(status, "PUT", "/files/kept", customer.team.api_key, b"paid for"))[0] == 200

    for power in ("Stopped", "Running"):
        await elsewhere.apply(trainer(power))
        status = (await eventually(look, ready, what=f"the GpuPod is {power}") or {})["status"]
        assert status["state"] == power.lower()
    assert await customer.answers(status, "/files/kept") == "paid for"

    balance = await customer.team.call("GET", f"/v1/orgs/{customer.team.id}/billing/balance")
    assert balance["availableCents"] < balance["balanceCents"]
    await elsewhere.delete("GpuPod", "trainer")
    await eventually(look, lambda item: item is None, what="the GpuPod is gone")
    for kind in ("Pod", "Secret", "PersistentVolumeClaim"):
        await customer.holds_none(kind, status["id"])


async def test_an_inferencebatch_of_one_cluster_is_answered_by_a_container_of_another(
    customer: Customer, elsewhere: Kube
) -> None:
    deployment, path = await serves(customer, 1)
    (replica,) = deployment["replicas"]
    asked = {"messages": [{"role": "user", "content": "who are you?"}]}
    await elsewhere.apply(batch(input={"inline": [{"customId": "one", "body": asked}]}))
    await eventually(elsewhere.looking_at(KIND, NAME), complete, what="the InferenceBatch is complete")
    published = (await elsewhere.get("ConfigMap", "answers"))["data"]["output.jsonl"]
    (answer,) = [json.loads(line) for line in published.splitlines()]
    assert answer["response"]["body"]["choices"][0]["message"]["content"] == f"from {name_of(replica['id'])}"

    await elsewhere.delete(KIND, NAME)
    await customer.team.call("DELETE", path)
    await has_no_pods(customer, deployment["id"])
