"""Who has a GPU cluster has a GPU cloud: what is applied in one cluster runs as containers of another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.batch_side import KIND, NAME, batch, complete
from tests.node.cloud.replicas import has_no_pods, serves
from tests.node.cloud.workload_image import IMAGE
from tests.node.gpus import NEEDS_GPUS
from tests.support import chart
from tests.support.binaries import server_binaries
from tests.support.controlplane import ControlPlane
from tests.support.eventually import eventually
from tests.support.kube import Kube
from tests.support.manifests import api_key_secret, cloud_account, gpu_pod, ready
from tests.support.operator import Operator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House
    from tests.support.kube import Manifest

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def elsewhere(house: House, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kube]:
    """Another cluster, with an operator, and an account of the organization `ml` in its namespace `default`."""
    folder = tmp_path_factory.mktemp("elsewhere")
    plane = await ControlPlane.start(folder / "controlplane", server_binaries())
    urls = house.ports.urls()
    async with Kube(plane.kubeconfig) as kube:
        await chart.install_crds(kube)
        kubeconfig = await chart.grant_access(plane, "relay-system")
        # The cloud calls no webhook on this machine: the operator asks.
        settings = {"webhook_public_url": "", "poll_transition_seconds": "1"}
        operator = Operator(folder, kubeconfig, "relay-system", urls, settings)
        await operator.start()
        await kube.apply(api_key_secret(house.customer.team.api_key))
        await kube.apply(cloud_account(*urls))
        yield kube
    await operator.stop()
    await plane.stop()


async def test_a_gpupod_of_one_cluster_runs_in_another_and_keeps_its_data(customer: Customer, elsewhere: Kube) -> None:
    look = elsewhere.looking_at("GpuPod", "trainer")

    def trainer(power: str) -> Manifest:
        return gpu_pod("trainer", model="h100", image=IMAGE, volumeGb=10, powerState=power)

    await elsewhere.apply(trainer("Running"))
    status = (await eventually(look, ready, what="the GpuPod is Ready") or {})["status"]
    (container,) = await customer.objects("Pod", status["id"])
    assert container["spec"]["nodeName"]
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
