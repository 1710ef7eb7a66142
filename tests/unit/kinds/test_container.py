"""What VMs and clusters pull private images with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import entry_of
from relay_operator.flows.managed.resource import Inputs
from relay_operator.kinds.gpucluster import GpuCluster, clusters
from relay_operator.kinds.gpupod import GpuPod, GpuPods
from relay_operator.kinds.gpuvm import GpuVm, GpuVms
from relay_wire.vms import VmRecord
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent, parts

if TYPE_CHECKING:
    from pydantic import JsonValue


HUB, ADA = ObjectKey("RegistryCredential", "team-a", "hub"), ObjectKey("SshKey", "team-a", "hub")
METADATA: JsonValue = {"name": "box", "namespace": "team-a"}
HELD: JsonValue = {"references": [{"kind": "RegistryCredential", "name": "hub", "id": "rcr_0"}]}
INTENT = intent("team-a-box")
VMS = GpuVms()
CLUSTERS = clusters(parts())


def vm(**spec: JsonValue) -> GpuVm:
    return GpuVm.model_validate({"metadata": METADATA, "spec": spec, "status": HELD})


def cluster(**spec: JsonValue) -> GpuCluster:
    return GpuCluster.model_validate({"metadata": METADATA, "spec": {"replicas": 1, **spec}, "status": HELD})


async def sent(kind: str, inputs: Inputs, **spec: JsonValue) -> dict[str, JsonValue]:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "x_1", "name": "team-a-box", "status": "provisioning"}'))
        if kind == "GpuVm":
            await VMS.create(cloud, vm(**spec), INTENT, inputs)
        else:
            await CLUSTERS.create(cloud, cluster(**spec), INTENT, inputs)
        body: dict[str, JsonValue] = json.loads(server.seen[0].body)
        return body


@pytest.mark.parametrize("kind", ["GpuVm", "GpuCluster"])
async def test_the_credential_is_sent_as_it_is_at_the_create(kind: str) -> None:
    referring: JsonValue = {"name": "hub"}
    body = await sent(kind, Inputs(ids={HUB: "rcr_1"}), registryCredentialRef=referring)
    assert body["registryCredentialId"] == "rcr_1"
    assert "registryCredentialRef" not in body
    assert "sshKeyIds" not in body
    assert (await sent(kind, Inputs(), registryCredentialId="rcr_2"))["registryCredentialId"] == "rcr_2"
    assert "registryCredentialId" not in await sent(kind, Inputs())


def test_the_reference_is_the_one_that_the_cache_reads() -> None:
    spec: dict[str, JsonValue] = {"registryCredentialRef": {"name": "hub"}, "sshKeyRefs": [{"name": "hub"}]}
    assert (
        set(VMS.references(vm(**spec))) == set(entry_of({"metadata": METADATA, "spec": spec}, "").named) == {HUB, ADA}
    )
    assert CLUSTERS.references(cluster(registryCredentialRef={"name": "hub"})) == (HUB,)
    assert CLUSTERS.references(cluster()) == VMS.references(vm()) == ()
    assert GpuPods().references(GpuPod.model_validate({"metadata": METADATA, "spec": {"image": "x", **spec}})) == (ADA,)


def test_another_credential_cannot_be_given_and_a_new_one_of_the_same_name_changes_nothing() -> None:
    obj, has = vm(registryCredentialRef={"name": "hub"}), VmRecord(id="vm_1", name="team-a-box", status="running")
    assert VMS.giving(obj, has, {HUB: "rcr_1"}) == ()
    assert VMS.differences(obj, has) == ()
    other = vm(registryCredentialRef={"name": "other"})
    assert VMS.immutable(obj)["registryCredentialRef"] == "hub" != VMS.immutable(other)["registryCredentialRef"]
    assert CLUSTERS.immutable(cluster(registryCredentialRef={"name": "hub"}))["registryCredentialRef"] == "hub"
    assert CLUSTERS.immutable(cluster())["registryCredentialRef"] is None
