"""KubeVirt, CDI and snapshots on a stage: CRDs of their names, and what their controllers would write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.kubernetes_runtime.stage import GPU, now
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.cluster.kubernetes_runtime.stage import Json, Stage
    from tests.support.kube import Kube

_KINDS = (
    ("kubevirt.io", "v1", "VirtualMachine"),
    ("kubevirt.io", "v1", "VirtualMachineInstance"),
    ("cdi.kubevirt.io", "v1beta1", "VolumeImportSource"),
    ("snapshot.storage.k8s.io", "v1", "VolumeSnapshot"),
)
PHASES = ("Pending", "Scheduling", "Scheduled", "Running")


async def installed(kube: Kube) -> None:
    """The cluster has the CRDs, which take any fields."""
    for group, version, kind in _KINDS:
        plural = f"{kind.lower()}s"
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"kind": kind, "plural": plural, "singular": kind.lower()}
        spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [served]}
        approved = {"api-approved.kubernetes.io": "unapproved, a test"}  # which groups of k8s.io need
        metadata = {"name": f"{plural}.{group}", "annotations": approved}
        crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
        await kube.apply({**crd, "spec": spec})


async def machine(stage: Stage, vm_id: str, strategy: str = "Always", start: int = 1) -> Json:
    """Its VirtualMachine, once that is wanted to run, or not to, at this start."""

    def is_so(found: Json | None) -> bool:
        if found is None:
            return False
        wanted = found["spec"]["template"]["metadata"]["annotations"]["gpurelay.dev/start"]
        return (found["spec"]["runStrategy"], wanted) == (strategy, str(start))

    look = stage.kube.looking_at("VirtualMachine", name_of(vm_id), stage.namespace)
    found = await eventually(look, is_so, what=f"a VirtualMachine is {strategy} at its start {start}")
    assert found is not None
    return found


async def controller_starts(stage: Stage, vm_id: str, **status: Any) -> None:
    """An instance with the labels and annotations of the template, which runs, and its Pod on the Node.

    The guest's agent says an address that is not the Pod's.
    """
    vm, name, node = await stage.kube.get("VirtualMachine", name_of(vm_id), stage.namespace), name_of(vm_id), ""
    node = stage.product.lower()
    copied = vm["spec"]["template"]["metadata"]
    said = {
        "phase": PHASES[-1],
        "phaseTransitionTimestamps": [{"phase": each, "phaseTransitionTimestamp": now()} for each in PHASES],
        "nodeName": node,
        "interfaces": [{"name": "default", "ipAddress": "fd00::bad"}],
        **status,
    }
    metadata = {"name": name, "namespace": stage.namespace}
    instance = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {**metadata, **copied}}
    await stage.kube.create({**instance, "status": said})
    gpus = {GPU: str(len(vm["spec"]["template"]["spec"]["domain"]["devices"]["gpus"]))}
    compute = {"name": "compute", "image": "virt-launcher", "resources": {"limits": gpus, "requests": gpus}}
    launcher = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, **copied, "name": f"virt-launcher-{name}"}}
    spec = {"nodeName": node, "containers": [compute], "automountServiceAccountToken": False}
    await stage.kube.create({**launcher, "spec": spec})
    has_address = {"status": {"podIP": stage.address, "podIPs": [{"ip": stage.address}]}}
    await stage.kube.patch("Pod", f"virt-launcher-{name}", has_address, stage.namespace, "status")
    await _prints(stage, vm_id, "Running")


async def controller_stops(stage: Stage, vm_id: str) -> None:
    """The instance and its Pod are gone, and the VirtualMachine says so."""
    await stage.kube.delete("VirtualMachineInstance", name_of(vm_id), stage.namespace)
    await stage.kubelet_removes(f"virt-launcher-{name_of(vm_id)}")
    await _prints(stage, vm_id, "Stopped")


async def _prints(stage: Stage, vm_id: str, printable: str) -> None:
    change = {"status": {"printableStatus": printable}}
    await stage.kube.patch("VirtualMachine", name_of(vm_id), change, stage.namespace)
