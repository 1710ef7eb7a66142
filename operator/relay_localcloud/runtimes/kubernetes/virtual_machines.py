"""The objects of one VM: its VirtualMachine of KubeVirt, its disk, which CDI fills with an image, and a Secret. Pure.

Field names are those of kubevirt.io/v1 and cdi.kubevirt.io/v1beta1.
"""

import json
from collections.abc import Sequence
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

from relay_localcloud.runtimes.kubernetes import wanted
from relay_localcloud.runtimes.kubernetes.names import START, name_of
from relay_localcloud.runtimes.kubernetes.runs import Boot, Run, Share
from relay_localcloud.runtimes.kubernetes.tenants import Manifest
from relay_localcloud.runtimes.kubernetes.wanted import Terms

RUNS: Final = "Always"
HALTED: Final = "Halted"
"""The `runStrategy` of a VM that is started, and of one that is stopped."""

_CDI: Final = "cdi.kubevirt.io"
_USER_DATA: Final = "userdata"
"""The key under which KubeVirt looks for the user data in a Secret."""
_SPARED_MILLIS: Final = 100
"""CPU that a VM leaves of its share for what KubeVirt runs beside the guest, so that all of a node's GPUs fit on it."""
_SPARED: Final = 2 * 1024**3
_SPARED_PER_CORE: Final = 8 * 1024**2
_SPARED_OF_ALL: Final = 256
"""Memory that a guest with GPUs leaves of its share, since KubeVirt adds at most this much for itself: fixed, for each
core, and a 256th of the whole."""


def of(run: Run, boot: Boot, terms: Terms) -> list[Manifest]:
    """All objects that a VM needs, including its VirtualMachine, in the order of their creation."""
    return [_source(run, boot, terms), *_disk(run, terms), _secret(run, boot, terms), _machine(run, terms)]


def _source(run: Run, boot: Boot, terms: Terms) -> Manifest:
    kind = "registry" if boot.disk_image.startswith("docker://") else "http"
    return {
        "apiVersion": f"{_CDI}/v1beta1",
        "kind": "VolumeImportSource",
        "metadata": wanted.metadata(run, terms),
        "spec": {"source": {kind: {"url": boot.disk_image}}},
    }


def _disk(run: Run, terms: Terms) -> list[Manifest]:
    source: JsonValue = {"apiGroup": _CDI, "kind": "VolumeImportSource", "name": name_of(run.id)}
    return [wanted.claim(run, terms, {"dataSourceRef": source})]


def _secret(run: Run, boot: Boot, terms: Terms) -> Manifest:
    data: JsonValue = {_USER_DATA: wanted.base64(user_data(run.public_keys, boot.script))}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": wanted.metadata(run, terms), "data": data}


def user_data(public_keys: Sequence[str], script: str | None) -> str:
    """What cloud-init does at the first boot of a disk: let the keys in, then run the script as root."""
    config = "#cloud-config\n" + json.dumps({"ssh_authorized_keys": [key.strip() for key in public_keys]})
    boundary = sha256(f"{config}{script}".encode()).hexdigest()  # which neither of them contains
    parts = MIMEMultipart(boundary=boundary)
    parts.attach(MIMEText(config, "cloud-config"))
    if script is not None:
        parts.attach(MIMEText(script, "x-shellscript"))
    return parts.as_string()


def _machine(run: Run, terms: Terms) -> Manifest:
    """The VirtualMachine; a patch of an existing one sets the same fields, so each list and each map is always whole.

    KubeVirt copies the template's labels and annotations to what runs.
    """
    metadata = wanted.metadata(run, terms)
    template: Manifest = {
        "metadata": {"labels": metadata["labels"], "annotations": {START: str(run.start)}},
        "spec": {
            "affinity": _affinity(run.share, terms),
            "tolerations": [] if run.share.machine is None else wanted.tolerations(run.share.machine),
            "evictionStrategy": "None",
            "domain": _domain(run),
            "networks": [{"name": "default", "pod": {}}],
            "volumes": [
                {"name": "disk", "persistentVolumeClaim": {"claimName": name_of(run.id)}},
                {"name": "cloud-init", "cloudInitNoCloud": {"secretRef": {"name": name_of(run.id)}}},
            ],
        },
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": metadata,
        "spec": {"runStrategy": RUNS, "template": template},
    }


def _affinity(share: Share, terms: Terms) -> JsonValue:
    if share.machine is not None:
        return wanted.on_node(share.machine.name)
    if not terms.node_selector:
        return None
    labelled: list[JsonValue] = [
        {"key": key, "operator": "In", "values": [value]} for key, value in sorted(terms.node_selector.items())
    ]
    return wanted.on_nodes({"matchExpressions": labelled})


def _domain(run: Run) -> Manifest:
    share, cores = run.share, max(1, run.share.cpu_millis // 1000)
    gpus: list[JsonValue] = []
    if share.machine is not None:
        gpus = [{"name": f"gpu{number}", "deviceName": share.machine.resource} for number in range(share.gpu_count)]
    interface: Manifest = {"name": "default", "masquerade": {}, "macAddress": mac_address(run.id)}
    return {
        "cpu": {"cores": cores},
        "memory": {"guest": str(_guest_memory(share, cores))},
        "resources": {"requests": {"cpu": f"{max(share.cpu_millis - _SPARED_MILLIS, 1)}m"}},
        "devices": {
            "disks": [{"name": name, "disk": {"bus": "virtio"}} for name in ("disk", "cloud-init")],
            "interfaces": [interface],
            "gpus": gpus,
            "logSerialConsole": True,
        },
    }


def _guest_memory(share: Share, cores: int) -> int:
    """The guest's memory; without GPUs, what KubeVirt adds for itself comes from what its node has."""
    if share.machine is None:
        return share.memory_bytes
    spared = _SPARED + cores * _SPARED_PER_CORE + share.memory_bytes // _SPARED_OF_ALL
    return max(share.memory_bytes - spared, share.memory_bytes // 2)


def mac_address(vm_id: str) -> str:
    """A VM's own address, the same at each start: images write the one of their first boot into their configuration."""
    return ":".join(["02", *(f"{byte:02x}" for byte in sha256(vm_id.encode()).digest()[:5])])
