"""The objects of one container: its Pod, volume and Secrets. Pure; `tenants.py` has those of the organization."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB
from relay_localcloud.runtimes.kubernetes.names import (
    CONTAINER,
    CORDON,
    START,
    labels_of,
    name_of,
    namespace_of,
    pull_name_of,
)
from relay_localcloud.runtimes.kubernetes.runs import Machine, Probe, Run, Share
from relay_localcloud.runtimes.kubernetes.tenants import Manifest
from relay_localcloud.tooling.registry_credentials import Login
from relay_localcloud.workloads.container import NO_GPUS, gives_gpus

WORKSPACE: Final = "/workspace"
AUTHORIZED_KEYS: Final = "authorized_keys"
SSH_DIRECTORY: Final = "/root/.ssh"
DISK: Final = "ephemeral-storage"
UNASKED_DISK_GB: Final = 1
"""The disk that a container without a disk size requests: a small disk must suffice for all GPUs of its node."""
AWAY: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of silent nodes; Pods there tolerate them, so that their GPUs stay held."""
_BY_PLUGINS: Final = frozenset({"NVIDIA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES"})
"""What device plugins set for a container with GPUs, and a Pod would override; AMD's passes devices on instead."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all containers of a cluster; without a storage class there are no volumes.

    `node_selector` has the labels of the nodes that the cloud may use. With the `pull_policy` Always, the registry is
    asked at every start: else an image that one organization's credential pulled would run for all who know its name.
    """

    instance: str
    storage_class: str | None = None
    node_selector: Mapping[str, str] = field(default_factory=dict)
    privileged_allowed: bool = False
    pull_policy: str = "Always"


def of(run: Run, terms: Terms) -> list[Manifest]:
    """All objects that a container needs, including its Pod, in the order of their creation."""
    return [*_kept(run, terms), *_secrets(run, terms), _pod(run, terms)]


def _kept(run: Run, terms: Terms) -> Iterator[Manifest]:
    """The objects that stay while the holder is stopped."""
    if run.volume_gb is None or terms.storage_class is None:
        return
    yield claim(run, terms, {})


def claim(run: Run, terms: Terms, source: Manifest) -> Manifest:
    """The volume, with the field that says what it is filled with, if it is not to be empty."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata(run, terms),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": terms.storage_class,
            "resources": {"requests": {"storage": f"{run.volume_gb}Gi"}},
            **source,
        },
    }


def _secrets(run: Run, terms: Terms) -> Iterator[Manifest]:
    data = {key: value for key, (_, value) in _variables(run).items()}
    if run.public_keys:
        data[AUTHORIZED_KEYS] = "".join(f"{key.strip()}\n" for key in run.public_keys)
    if data:
        encoded: JsonValue = {key: base64(value) for key, value in data.items()}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata(run, terms), "data": encoded}
    if run.login is not None:
        yield {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": {**metadata(run, terms), "name": pull_name_of(run.id)},
            "data": {".dockerconfigjson": base64(_docker_config(run.login))},
        }


def _docker_config(login: Login) -> str:
    """The login as a Docker config in JSON, which the kubelet reads."""
    auth = base64(f"{login.username}:{login.password}")
    known = {"username": login.username, "password": login.password, "auth": auth}
    return json.dumps({"auths": {login.server: known}})


def _pod(run: Run, terms: Terms) -> Manifest:
    volumes = dict(_volumes(run, terms))
    spec: Manifest = {
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(run, terms, volumes)],
    }
    if run.share.machine is not None:
        spec["affinity"] = on_node(run.share.machine.name)
        spec["tolerations"] = tolerations(run.share.machine)
    elif terms.node_selector:
        spec["nodeSelector"] = dict(terms.node_selector)
    if run.credential_id is not None:
        spec["imagePullSecrets"] = [{"name": pull_name_of(run.id)}]
    spec["volumes"] = [{"name": name, **source} for name, (source, _) in volumes.items()]
    started: Manifest = {**metadata(run, terms), "annotations": {START: str(run.start)}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": started, "spec": spec}


def _container(run: Run, terms: Terms, volumes: Mapping[str, tuple[Manifest, Manifest]]) -> Manifest:
    limits: JsonValue = {**_amounts(run.share), DISK: f"{run.disk_gb or DEFAULT_DISK_GB}Gi"}
    requests: JsonValue = {**_amounts(run.share), DISK: f"{run.disk_gb or UNASKED_DISK_GB}Gi"}
    container: Manifest = {
        "name": CONTAINER,
        "image": run.image,
        "imagePullPolicy": terms.pull_policy,
        "ports": [{"containerPort": run.port}],
        "resources": {"limits": limits, "requests": requests},
    }
    if run.command:
        container["command"] = [_literally(word) for word in run.command]
    if run.arguments:
        container["args"] = [_literally(word) for word in run.arguments]
    environment = list(_environment(run))
    if environment:
        container["env"] = environment
    container["volumeMounts"] = [{"name": name, **mount} for name, (_, mount) in volumes.items()]
    if run.probe is not None:
        container["readinessProbe"] = _asked(run.probe)
    if _is_privileged(run, terms):
        container["securityContext"] = {"privileged": True}
    return container


def _volumes(run: Run, terms: Terms) -> Iterator[tuple[str, tuple[Manifest, Manifest]]]:
    """Yields each volume's name, source and mount."""
    if run.volume_gb is not None and terms.storage_class is not None:
        yield "workspace", ({"persistentVolumeClaim": {"claimName": name_of(run.id)}}, {"mountPath": WORKSPACE})
    limit: Manifest = {} if run.shm_gb is None else {"sizeLimit": f"{run.shm_gb}Gi"}
    memory: Manifest = {"emptyDir": {"medium": "Memory", **limit}}  # counts as memory; the usual 64 MB starve NCCL
    yield "shm", (memory, {"mountPath": "/dev/shm"})  # noqa: S108 - the container's
    if run.public_keys:
        keys: JsonValue = [{"key": AUTHORIZED_KEYS, "path": AUTHORIZED_KEYS, "mode": 0o600}]
        source: Manifest = {"secret": {"secretName": name_of(run.id), "items": keys}}
        place = f"{SSH_DIRECTORY}/{AUTHORIZED_KEYS}"
        yield "ssh", (source, {"mountPath": place, "subPath": AUTHORIZED_KEYS, "readOnly": True})


def _environment(run: Run) -> Iterator[JsonValue]:
    """The container's own variables, from its Secret, and that it gets no GPUs but those that it asked for.

    Images set these variables as well, many of CUDA's to `all`.
    """
    for key, (name, _) in _variables(run).items():
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": name_of(run.id), "key": key}}}
    for name, value in NO_GPUS.items():
        if not run.share.gpu_count or name not in _BY_PLUGINS:
            yield {"name": name, "value": value}


def _variables(run: Run) -> Mapping[str, tuple[str, str]]:
    """Variables as (name, value), by a key that is valid in a Secret, as a variable's name need not be.

    Rows from before these were refused may have some that give GPUs.
    """
    own = sorted((name, value) for name, value in run.environment.items() if not gives_gpus(name))
    return {f"env-{number}": each for number, each in enumerate(own)}


def _amounts(share: Share) -> Manifest:
    gpus: Manifest = {share.machine.resource: str(share.gpu_count)} if share.machine is not None else {}
    return {"cpu": f"{share.cpu_millis}m", "memory": str(share.memory_bytes), **gpus}


def _asked(probe: Probe) -> Manifest:
    if probe.path is None:
        return {"tcpSocket": {"port": probe.port}}
    return {"httpGet": {"path": probe.path, "port": probe.port}}


def on_node(name: str) -> Manifest:
    """Only on the Node of this name."""
    return on_nodes({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]})


def on_nodes(term: JsonValue) -> Manifest:
    """Only on Nodes that the term selects."""
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def tolerations(machine: Machine) -> JsonValue:
    """Tolerates the vendor's taint of GPU nodes, and stays on a silent node; no Pod is scheduled to a silent node."""
    vendor = {machine.resource, f"{machine.resource.partition('/')[0]}/gpu"}
    tolerated: list[JsonValue] = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in AWAY]
    tolerated += [{"key": key, "operator": "Exists"} for key in sorted(vendor)]
    if machine.held:
        tolerated.append({"key": CORDON, "operator": "Exists", "effect": "NoSchedule"})
    return tolerated


def _is_privileged(run: Run, terms: Terms) -> bool:
    return run.privileged and terms.privileged_allowed


def _literally(word: str) -> str:
    """Escapes `$`, since Kubernetes expands `$(NAME)` and reduces `$$` to `$`."""
    return word.replace("$", "$$")


def metadata(run: Run, terms: Terms) -> Manifest:
    """The name, namespace and labels of the objects of one container or VM."""
    labels: JsonValue = dict(labels_of(terms.instance, run.cloud_id, run.id))
    return {"name": name_of(run.id), "namespace": namespace_of(run.organization_id), "labels": labels}


def base64(text: str) -> str:
    """The text as the data of a Secret has it."""
    return b64encode(text.encode()).decode()
