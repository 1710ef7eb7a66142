"""Every replica has an address, as every pod and VM on a machine has one; the setting `ipAddresses` says how many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import relay_localcloud.app  # noqa: F401 - every table, as in the running cloud
from relay_localcloud.capacity import addresses
from relay_localcloud.kernel.store import Store
from tests.localcloud.support import clusters, deployments
from tests.localcloud.support.statements import statements_of
from tests.localcloud.support.workloads import UNTIL_RUNNING, act, new_pod, running_pod, status

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

NO_ADDRESS = (503, "INSUFFICIENT_IP_CAPACITY")


async def with_addresses(start_server: StartServer, count: int) -> Organization:
    """An organization of a cloud with so many addresses."""
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"ipAddresses": count})
    return await server.organization()


async def test_a_cluster_has_as_many_replicas_as_there_are_addresses_and_the_rest_when_some_are_free(
    start_server: StartServer,
) -> None:
    organization = await with_addresses(start_server, 3)
    pod = await new_pod(organization)
    for fields in ({}, {"gpuModelId": None}):  # with GPUs and without
        cluster = (await clusters.create(organization, replicaCount=3, **fields))["id"]
        assert (await clusters.summary(organization, cluster))["status"] == "degraded"
        assert len(await clusters.replicas(organization, cluster)) == 2
        assert await clusters.refused(organization, name="another") == NO_ADDRESS
        await act(organization, pod["id"], "terminate")
        await organization.server.advance(UNTIL_RUNNING)
        assert (await clusters.summary(organization, cluster))["activeReplicas"] == 3
        assert (await clusters.summary(organization, cluster))["status"] == "running"
        await clusters.act(organization, cluster, "terminate")
        pod = await new_pod(organization)


async def test_a_cluster_grows_no_further_than_there_are_addresses(start_server: StartServer) -> None:
    organization = await with_addresses(start_server, 2)
    cluster = await clusters.running(organization)
    shown = await clusters.act(organization, cluster, "scale", {"replicaCount": 3})
    assert (shown["status"], shown["replicaCount"]) == ("degraded", 3)
    assert len(await clusters.replicas(organization, cluster)) == 2
    answer = await organization.call("POST", f"/v1/clusters/{cluster}/scale", {"replicaCount": 4})
    assert answer.refusal == NO_ADDRESS
    assert (await clusters.summary(organization, cluster))["replicaCount"] == 3
    await organization.server.ok("PATCH", "/settings", {"ipAddresses": 3})
    assert len(await clusters.replicas(organization, cluster)) == 3


async def test_a_cluster_that_was_stopped_has_no_address_and_needs_one_to_start(start_server: StartServer) -> None:
    organization = await with_addresses(start_server, 1)
    cluster = await clusters.running(organization)
    await clusters.act(organization, cluster, "stop")
    await organization.server.advance(1)
    pod = await new_pod(organization)
    answer = await organization.call("POST", f"/v1/clusters/{cluster}/restart", {})
    assert answer.refusal == NO_ADDRESS
    assert await clusters.status(organization, cluster) == "stopped"
    await act(organization, pod["id"], "terminate")
    assert (await clusters.act(organization, cluster, "restart"))["status"] == "provisioning"


async def test_a_deployment_has_as_many_replicas_as_there_are_addresses(start_server: StartServer) -> None:
    organization = await with_addresses(start_server, 2)
    pod = await running_pod(organization)
    made = await deployments.create(organization, replicasDesired=2)
    assert (made["status"], len(made["replicas"])) == ("degraded", 1)
    refused = await deployments.try_create(organization, acknowledgeLaneJoin=True)
    assert refused.refusal == NO_ADDRESS
    assert int(refused.headers["retry-after"]) > 0
    grown = await deployments.try_change(organization, made["id"], replicasDesired=3)
    assert grown.refusal == NO_ADDRESS
    await act(organization, pod, "stop")
    await organization.server.advance(1 + UNTIL_RUNNING)
    assert (await deployments.get(organization, made["id"]))["status"] == "running"
    answer = await organization.call("POST", f"/v1/vms/{pod}/restart")
    assert answer.refusal == NO_ADDRESS
    assert await status(organization, pod) == "stopped"
    await deployments.delete(organization, made["id"])
    await organization.server.advance(1)
    assert (await act(organization, pod, "restart"))["status"] == "deploying"


def test_whether_an_address_is_free_is_known_without_counting_those_that_are_taken() -> None:
    store = Store.ephemeral()
    store.count(addresses.COUNTED)
    with store.transaction(at=0) as tx:
        for number in range(20):
            addresses.take(tx, str(number))
        with statements_of(tx) as ran:
            assert addresses.is_one_free(tx)
        assert [said for said in ran if "FROM addresses" in said] == []
        addresses.give_back(tx, "3")
        tx.settings = tx.settings.model_copy(update={"ip_addresses": 20})
        addresses.take(tx, "another")
        assert not addresses.is_one_free(tx)
