"""How a GpuVm maps to a VM of the cloud, and what tells it from a pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import entry_of
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Inputs, Progress
from relay_operator.kinds.gpupod import GpuPods
from relay_operator.kinds.gpuvm import LONGEST_SCRIPT, GpuVm, GpuVms
from relay_wire.vms import VmRecord
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.kinds.given import intent

if TYPE_CHECKING:
    from pydantic import JsonValue

ADA = ObjectKey("SshKey", "team-a", "ada")
INTENT = intent("team-a-box")
EVERYTHING: dict[str, JsonValue] = {
    "gpu": {"modelId": "h100", "count": 2},
    "resourceSize": "gpu-2x",
    "tier": "standard",
    "image": "ubuntu:24.04",
    "containerPort": 8080,
    "containerCommand": ["sleep", "inf"],
    "env": [{"name": "A", "value": "1"}],
    "diskSizeGb": 50,
    "healthCheckPath": "/",
    "healthCheckPort": 8080,
    "healthChecks": ["http"],
    "preferredRegions": ["eu"],
    "allowFallback": False,
    "privileged": False,
    "kernelModules": ["fuse"],
    "registryCredentialId": "rcr_1",
    "templateId": "t",
    "public": True,
    "nodeId": "node_1",
    "cloudInit": "#!/bin/sh\ntrue",
    "sshKeyRefs": [{"name": "ada"}],
}


def vm(status: JsonValue = None, **spec: JsonValue) -> GpuVm:
    metadata = {"name": "box", "namespace": "team-a"}
    return GpuVm.model_validate({"metadata": metadata, "spec": spec, "status": status or {}})


def record(**fields: JsonValue) -> VmRecord:
    return VmRecord.model_validate({"id": "vm_1", "name": "team-a-box", "status": "running", **fields})


async def sent(obj: GpuVm, inputs: Inputs) -> dict[str, JsonValue]:
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=b'{"id": "vm_1", "name": "team-a-box", "status": "provisioning"}'))
        made = await GpuVms().create(cloud, obj, INTENT, inputs)
        assert GpuVms().identity(made) == ("vm_1", "team-a-box")
        assert GpuVms().progress(made) is Progress.PENDING
        body: dict[str, JsonValue] = json.loads(server.seen[0].body)
        return body


async def test_every_field_is_sent() -> None:
    body = await sent(vm(**EVERYTHING), Inputs(env={"A": "1"}, model_id="h100", ids={ADA: "ssh_1"}))
    renamed: dict[str, JsonValue] = {
        "name": "team-a-box",
        "gpuModelId": "h100",
        "gpuCount": 2,
        "imageUrl": "ubuntu:24.04",
        "envVars": {"A": "1"},
        "sshKeyIds": ["ssh_1"],
    }
    plain = {name: value for name, value in EVERYTHING.items() if name not in {"gpu", "image", "env", "sshKeyRefs"}}
    assert body == plain | renamed


async def test_what_is_not_said_is_left_to_the_cloud() -> None:
    assert await sent(vm(), Inputs()) == {"name": "team-a-box", "public": False}
    script = Inputs(texts={"cloudInitFrom": "#!/bin/sh"})
    assert (await sent(vm(), script))["cloudInit"] == "#!/bin/sh"


@pytest.mark.parametrize(
    ("script", "says"),
    [("#cloud-config\n", "must begin with a shebang"), ("#!" + "x" * LONGEST_SCRIPT, "more than 16384 characters")],
)
def test_a_script_that_the_cloud_would_refuse_is_not_sent(script: str, says: str) -> None:
    told = GpuVms().unusable(vm(), Inputs(texts={"cloudInitFrom": script}))
    assert told is not None
    assert says in told
    assert "#cloud-config\n" not in told
    assert GpuVms().unusable(vm(), Inputs()) is None


def test_the_references_are_those_that_the_cache_reads() -> None:
    obj = vm(**EVERYTHING)
    raw: dict[str, JsonValue] = {"metadata": {"name": "box", "namespace": "team-a"}, "spec": dict(EVERYTHING)}
    assert GpuVms().references(obj) == entry_of(raw, "").named == (ADA,)


def test_a_key_that_is_new_is_attached_and_one_that_is_taken_off_is_a_difference() -> None:
    has: JsonValue = {"references": [{"kind": "SshKey", "name": "ada", "id": "ssh_1"}]}
    named: list[JsonValue] = [{"name": "ada"}]
    assert GpuVms().giving(vm(has, sshKeyRefs=named), record(), {ADA: "ssh_1"}) == ()
    (change,) = GpuVms().giving(vm(has, sshKeyRefs=named), record(), {ADA: "ssh_2"})
    assert (change.name, change.to) == ("attach-ssh-key", "ada")
    assert GpuVms().differences(vm(has, sshKeyRefs=named), record()) == ()
    assert GpuVms().differences(vm(has), record()) == ("sshKeyRefs: has ada, which cannot be taken off",)


def test_a_pod_is_no_vm_and_a_vm_no_pod() -> None:
    assert GpuVms().differences(vm(), record(serviceType="pod")) == ("kind: it is a pod",)
    assert GpuVms().differences(vm(), record(serviceType="anything")) == ()


async def test_pods_and_vms_share_a_list_and_each_has_its_own() -> None:
    rows = [record(id=kind, name=f"a-{kind}", serviceType=kind) for kind in ("pod", "vm")]
    page = {"items": [row.model_dump(by_alias=True) for row in [*rows, record(id="gone", status="terminated")]]}
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(Reply(body=json.dumps(page).encode()))
        assert await GpuVms().living(cloud, UnclaimedIds()) == {"vm": "a-vm"}
        assert await GpuPods().living(cloud, UnclaimedIds()) == {"pod": "a-pod"}


async def test_of_what_webhooks_named_each_has_its_own_where_the_cloud_has_no_list() -> None:
    unclaimed = UnclaimedIds()
    for one in ("pod-1", "vm-1", "odd-1"):
        unclaimed.add(one)
    told = {"odd-1": None, "vm-1": "vm", "pod-1": "pod"}  # newest first
    looks = [record(id=one, name=f"a-{one}", serviceType=word) for one, word in told.items()]
    async with scripted_server() as server, Cloud(server.url, "or_key", organization_id="org-1") as cloud:
        server.will(
            *(Reply(body=look.model_dump_json(by_alias=True).encode()) for look in looks), Reply(404, b'{"error":"no"}')
        )
        assert await GpuVms().living(cloud, unclaimed) == {"vm-1": "a-vm-1", "odd-1": "a-odd-1"}
        assert await GpuPods().living(cloud, unclaimed) == {"pod-1": "a-pod-1", "odd-1": "a-odd-1"}
        assert unclaimed.discard("vm-1")
        assert await GpuVms().living(cloud, unclaimed) == {"odd-1": "a-odd-1"}


def test_its_status_is_what_the_record_tells() -> None:
    seen = record(resourceSize="gpu-2x", tier="spot", diskSizeGb=50, public=True, gpuCount=2, pricePerHourCents=498)
    status = GpuVms().status(vm(), seen)
    assert status.model_dump(mode="json", exclude_none=True, exclude={"conditions", "observed_generation"}) == {
        "state": "running",
        "resourceSize": "gpu-2x",
        "tier": "spot",
        "diskSizeGb": 50,
        "public": True,
        "gpuCount": 2,
        "pricePerHourCents": 498,
    }
