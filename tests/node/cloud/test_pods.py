"""Pods of the cloud are containers of a real node: what they serve, keep, say when they fail, and leave behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.node.gpus import NEEDS_GPUS
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]


async def test_a_pod_serves_from_its_own_container_and_its_volume_survives_a_stop(customer: Customer) -> None:
    pod_id = await customer.post(gpuCount=2, httpPort=8080, envVars={"PORT": "8080"})
    record = await customer.becomes(pod_id, "running")
    host, _, gpus = (await customer.answers(record, "/")).partition(" ")
    assert host == name_of(pod_id)
    assert gpus.count("gpu-") == 2
    assert (await customer.ask(record, "GET", "/"))[0] == 401
    assert (await customer.ask(record, "PUT", "/files/kept", customer.team.api_key, b"paid for"))[0] == 200

    await customer.team.call("POST", f"/v1/vms/{pod_id}/stop")
    await customer.becomes(pod_id, "stopped")
    assert await customer.objects("Pod", pod_id) == []
    (stopped,) = [one for one in await customer.team.billed() if one["resourceId"] == pod_id]
    assert stopped["cents"] > 0

    await customer.team.call("POST", f"/v1/vms/{pod_id}/restart")
    record = await customer.becomes(pod_id, "running")
    assert await customer.answers(record, "/files/kept") == "paid for"

    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")
    for kind in ("Pod", "Secret", "PersistentVolumeClaim"):
        await customer.holds_none(kind, pod_id)


async def test_a_workload_runs_on_while_the_cloud_is_killed_and_is_neither_doubled_nor_lost(
    house: House, customer: Customer
) -> None:
    pod_id = await customer.post()
    record = await customer.becomes(pod_id, "running")
    (before,) = await customer.objects("Pod", pod_id)
    await house.killed()
    assert (await customer.team.vm(pod_id))["status"] == "running"
    assert (await customer.answers(record, "/")).startswith(name_of(pod_id))
    (after,) = await customer.objects("Pod", pod_id)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await house.killed()
    await customer.becomes(pod_id, "terminated")
    await customer.holds_none("Pod", pod_id)


async def test_a_pod_whose_whole_namespace_somebody_deleted_fails_and_a_restart_makes_all_of_it_again(
    customer: Customer,
) -> None:
    pod_id = await customer.post()
    await customer.becomes(pod_id, "running")
    (before,) = await customer.objects("Pod", pod_id)
    await customer.kube.delete("Namespace", before["metadata"]["namespace"])
    await customer.becomes(pod_id, "failed", "Its volume was deleted", within=120)
    await customer.team.call("POST", f"/v1/vms/{pod_id}/restart")
    (after,) = await eventually(
        lambda: customer.objects("Pod", pod_id),
        lambda found: found and found[0]["metadata"]["uid"] != before["metadata"]["uid"],
        within=120,
        what="another Pod, in another namespace",
    )
    assert await customer.kube.find("NetworkPolicy", "relay", after["metadata"]["namespace"])
    record = await customer.becomes(pod_id, "running")
    assert (await customer.answers(record, "/")).startswith(name_of(pod_id))
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")


async def test_a_container_that_exits_says_so_and_is_started_again(customer: Customer) -> None:
    pod_id = await customer.post()
    record = await customer.becomes(pod_id, "running")
    await customer.answers(record, "/")
    await customer.ask(record, "POST", "/exit/3", customer.team.api_key)
    told = (await customer.becomes(pod_id, "running", "CONTAINER_EXITED"))["statusReason"]
    assert "3" in told
    await customer.answers(record, "/")
    assert "serving" in await customer.log(pod_id)
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")


async def test_an_image_that_cannot_be_pulled_is_told_in_the_kubelets_own_words(customer: Customer) -> None:
    pod_id = await customer.post(image="localhost/absent:1")
    record = await customer.becomes(pod_id, "deploying", "localhost/absent:1")
    assert "pull" in record["statusReason"].lower()
    await customer.team.call("POST", f"/v1/vms/{pod_id}/terminate")
    await customer.becomes(pod_id, "terminated")
