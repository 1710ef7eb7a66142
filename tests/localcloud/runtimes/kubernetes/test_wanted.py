"""What Kubernetes is asked for, as it was reviewed, and what no request may get."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from dataclasses import fields, replace
from email import message_from_string
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from relay_localcloud.capacity.catalog import CPU_SIZES
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.replicas.rows import Replica
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.runtimes.kubernetes import runs, tenants, virtual_machines, wanted
from relay_localcloud.runtimes.kubernetes.opening import account_of
from relay_localcloud.runtimes.kubernetes.runs import Boot, Machine, Room, Run, Share
from relay_localcloud.runtimes.kubernetes.tenants import Account, Gateway
from relay_localcloud.runtimes.kubernetes.wanted import Terms
from relay_localcloud.serving.rows import Deployment
from relay_localcloud.tooling.registry_credentials import Login
from relay_localcloud.workloads.workloads import Workload
from relay_wire.clusters import ClusterCreate
from relay_wire.pods import PodCreate
from relay_wire.serving import DeploymentCreate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from relay_localcloud.runtimes.kubernetes.tenants import Manifest

GIB = 1024**3
GOLDENS = Path(__file__).with_name("goldens")
MACHINE = Machine("gpu-7", "nvidia.com/gpu", gpu_count=8, cpu_millis=95_200, memory_bytes=800 * 1024**3)
TERMS = Terms("i-1", "fast")
CHOSEN = replace(TERMS, node_selector={"gpurelay.dev/pool": "true"})
ORGANIZATION = "org_Ab12"


def row(kind: type[Any], **values: object) -> Any:
    """A row of which only some values matter."""
    return kind(**{field.name: None for field in fields(kind)} | values)


def pod(gpu_count: int = 2, machine: Machine = MACHINE, **asked: Any) -> Run:
    body = PodCreate(image="app:1", gpu_count=gpu_count, http_port=8080, **asked).model_dump_json(exclude_none=True)
    named = {"id": "pod_1f", "organization_id": ORGANIZATION, "request": body}
    had = {"gpu_count": gpu_count, "http_port": 8080, "volume_gb": 50, "disk_size_gb": 50}
    return runs.of_pod(row(Workload, **named, **had), machine, ["ssh-ed25519 BB attached"], start=3)


def replica(**values: object) -> Replica:
    return Replica(1, "rep_2e", "any", "node_1", ReplicaState.PROVISIONING, 0, **values)  # type: ignore[arg-type]


def cluster_replica(machine: Machine | None = MACHINE, **asked: Any) -> Run | None:
    asked = {"image_url": "vllm:1", **asked}
    cluster = row(Cluster, id="cluster_3d", organization_id=ORGANIZATION, created_as=ClusterCreate(name="llm", **asked))
    share = runs.cpu_share(CPU_SIZES["small"]) if machine is None else runs.gpu_share(machine, 4)
    login = Login("ghcr.io", "me", "s3cret") if asked.get("registry_credential_id") else None
    return runs.of_cluster(cluster, replica(), share, start=1, login=login)


def deployment_replica(image: str | None = "engine:1") -> Run | None:
    spec = DeploymentCreate.model_validate(
        {
            "organizationId": ORGANIZATION,
            "publicModelId": "llama",
            "engine": "sglang",
            "servedModelId": "llama-3",
            "gpuModelId": "h100",
            "gpuCountPerReplica": 1,
            "replicasMin": 1,
            "replicasMax": 1,
            "replicasDesired": 1,
            "extraArgs": ["--model-path", "$(HOME)/llama", "$$"],
            "env": {"HF_TOKEN": "hf_s3cret"},
        }
    )
    deployment = row(Deployment, id="dep_4c", organization_id=ORGANIZATION, spec=spec)
    return runs.of_deployment(deployment, replica(engine_image=image), MACHINE, start=1)


def vm(share: Share, disk_image: str, script: str | None = None) -> Run:
    named = {"id": "vm_5d", "organization_id": ORGANIZATION, "image": "ubuntu", "http_port": 80, "disk_size_gb": 40}
    return runs.of_vm(row(Workload, **named), share, Boot(disk_image, script), ["ssh-ed25519 AA me\n"], start=2)


def objects(run: Run | None, terms: Terms = TERMS) -> list[Any]:
    assert run is not None
    return wanted.of(run, terms) if run.boot is None else virtual_machines.of(run, run.boot, terms)


def organization() -> list[Manifest]:
    gateway = Gateway("relay-system", {"app": "relay-localcloud"}, ("192.0.2.0/28",))
    return [
        tenants.namespace("i-1", ORGANIZATION, privileged=False),
        tenants.quota("i-1", ORGANIZATION, 16, ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/gpu"]),
        tenants.network_policy("i-1", ORGANIZATION, gateway),
    ]


FULL = pod(env_vars={"A B": "1", "HOME": "$(X)"}, ssh_keys=["ssh-ed25519 AA me"], shm_size_gb=16)
CPU_VM = vm(runs.cpu_share(CPU_SIZES["small"]), "https://images.example/debian.qcow2")
GPU_VM = vm(runs.gpu_share(MACHINE, 2), "docker://quay.io/containerdisks/ubuntu:24.04", "#!/bin/sh\necho hi\n")
CHECKED = cluster_replica(
    container_port=8000,
    container_command=["serve", "$(HOST)"],
    health_check_path="/health",
    registry_credential_id="rcr_9a",
    disk_size_gb=100,
    privileged=True,
)


@pytest.mark.parametrize(
    ("golden", "manifests"),
    [
        ("organization", organization()),
        ("pod", objects(FULL)),
        ("cluster_replica", objects(CHECKED)),
        ("cpu_replica", objects(cluster_replica(None, health_check_port=9000), CHOSEN)),
        ("deployment_replica", objects(deployment_replica())),
        ("vm", objects(GPU_VM)),
        ("cpu_vm", objects(CPU_VM, CHOSEN)),
    ],
)
def test_what_is_asked_for_is_what_was_reviewed(golden: str, manifests: Sequence[Manifest]) -> None:
    """After a change that is meant: look at the difference, then write what the failure shows into the file."""
    assert list(manifests) == list(yaml.safe_load_all((GOLDENS / f"{golden}.yaml").read_text()))


@pytest.mark.parametrize(
    ("machine", "shown"),
    [
        (MACHINE, {}),
        (None, {"NVIDIA_VISIBLE_DEVICES": "void", "HABANA_VISIBLE_DEVICES": "none"}),
    ],
    ids=["with GPUs", "without GPUs"],
)
def test_no_variable_of_its_own_gives_a_container_more_gpus_than_it_has(
    machine: Machine | None, shown: Mapping[str, str]
) -> None:
    names = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES", "DOCKER_RESOURCE_GPU")
    own = {"ROCR_VISIBLE_DEVICES": "1"}
    secret, made = objects(cluster_replica(machine, env_vars={**dict.fromkeys(names, "all"), **own}))
    (container,) = made["spec"]["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values == {"ROCR_VISIBLE_DEVICES": None, "AMD_VISIBLE_DEVICES": "none", **shown}
    assert secret["data"] == {"env-0": "MQ=="}


def test_images_are_taken_from_a_node_only_where_the_administrator_says_so() -> None:
    def policy(terms: Terms) -> str:
        return str(objects(FULL, terms)[-1]["spec"]["containers"][0]["imagePullPolicy"])

    assert [policy(TERMS), policy(replace(TERMS, pull_policy="IfNotPresent"))] == ["Always", "IfNotPresent"]


def test_shares_of_a_node_never_exceed_it() -> None:
    odd = replace(MACHINE, gpu_count=3, cpu_millis=10_000, memory_bytes=10**9)
    one, two = runs.gpu_share(odd, 1), runs.gpu_share(odd, 2)
    assert one.cpu_millis + two.cpu_millis <= odd.cpu_millis
    assert one.memory_bytes + two.memory_bytes <= odd.memory_bytes
    assert runs.gpu_share(odd, 3).cpu_millis == odd.cpu_millis


def test_what_runs_while_no_gpu_is_offered_gets_no_more_than_the_node() -> None:
    assert runs.gpu_share(replace(MACHINE, gpu_count=0), 2).memory_bytes == MACHINE.memory_bytes


@pytest.mark.parametrize("free", [Room(0, 0, 0), Room(1, 9, 9), Room(2, 0, 9), Room(2, 9, 0)])
def test_without_room_on_its_node_a_container_asks_for_its_part_of_the_whole(free: Room) -> None:
    assert runs.gpu_share(replace(MACHINE, free=free), 2).cpu_millis == MACHINE.cpu_millis // 4


@pytest.mark.parametrize(
    ("gpu_count", "offered", "asked", "limit"),
    [
        (1, 8, None, "2Gi"),
        (7, 8, None, "14Gi"),
        (8, 8, None, None),
        (1, 1, None, None),
        (2, 1, None, "4Gi"),
        (2, 0, None, "4Gi"),
        (1, 8, 1, "1Gi"),
        (8, 8, 100, "100Gi"),
    ],
)
def test_only_a_pod_that_has_its_whole_node_may_fill_its_memory_with_shared_memory(
    gpu_count: int, offered: int, asked: int | None, limit: str | None
) -> None:
    run = pod(gpu_count, replace(MACHINE, gpu_count=offered), shm_size_gb=asked)
    (shm,) = [each for each in objects(run)[-1]["spec"]["volumes"] if each["name"] == "shm"]
    assert shm["emptyDir"].get("sizeLimit") == limit


@pytest.mark.parametrize("asked", [{"health_check_path": "/up"}, {"health_check_port": 9}, {"health_checks": ["tcp"]}])
def test_whoever_asks_for_any_check_gets_one(asked: dict[str, Any]) -> None:
    checked, unchecked = cluster_replica(**asked), cluster_replica()
    assert checked is not None
    assert unchecked is not None
    assert (checked.probe is None, unchecked.probe is None) == (False, True)


def test_whoever_has_no_gpu_does_not_stay_on_a_node_that_is_away() -> None:
    assert "tolerations" not in objects(cluster_replica(None))[-1]["spec"]


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu", "amd.com/gpu"])
def test_the_taint_of_a_vendor_is_tolerated_whatever_part_of_a_gpu_is_asked_for(resource: str) -> None:
    spec = objects(cluster_replica(replace(MACHINE, resource=resource)))[-1]["spec"]
    assert f"{resource.partition('/')[0]}/gpu" in {each["key"] for each in spec["tolerations"]}


def test_privilege_is_what_both_the_request_and_the_administrator_say() -> None:
    def is_privileged(run: Run | None, *, allowed: bool) -> bool:
        manifest = objects(run, replace(TERMS, privileged_allowed=allowed))[-1]
        return "securityContext" in manifest["spec"]["containers"][0]

    assert is_privileged(CHECKED, allowed=True)
    assert not is_privileged(CHECKED, allowed=False)
    assert not is_privileged(FULL, allowed=True)


@pytest.mark.parametrize(("privileged", "level"), [(False, "baseline"), (True, "privileged")])
def test_a_namespace_admits_what_the_administrator_says(privileged: bool, level: str) -> None:
    namespace: Any = tenants.namespace("i-1", ORGANIZATION, privileged=privileged)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level


def test_without_a_storage_class_there_is_no_volume() -> None:
    kinds = [each["kind"] for each in objects(FULL, Terms("i-1"))]
    assert kinds == ["Secret", "Pod"]


def test_without_an_image_nothing_runs() -> None:
    assert cluster_replica(image_url=None) is None
    assert deployment_replica(image=None) is None


def test_secrets_are_in_no_pod_and_no_representation() -> None:
    run = deployment_replica()
    assert "hf_s3cret" not in str(objects(run)[-1])
    assert "hf_s3cret" not in repr(run)


def test_a_vm_lets_keys_in_and_runs_its_script_at_the_first_boot_of_its_disk() -> None:
    said = message_from_string(virtual_machines.user_data(["ssh-ed25519 AA me"], "#!/bin/sh\nécho\n"))
    _, config, script = [(each.get_content_type(), each.get_payload(decode=True)) for each in said.walk()]
    assert config == ("text/cloud-config", b'#cloud-config\n{"ssh_authorized_keys": ["ssh-ed25519 AA me"]}')
    assert script == ("text/x-shellscript", "#!/bin/sh\nécho\n".encode())


def test_a_vms_guest_leaves_room_for_what_kubevirt_adds_and_is_never_without_memory() -> None:
    def guest(gibs: int) -> int:
        share = replace(GPU_VM.share, memory_bytes=gibs * GIB)
        domain = objects(replace(GPU_VM, share=share))[-1]["spec"]["template"]["spec"]["domain"]
        return int(domain["memory"]["guest"])

    added = 200 * GIB // 512 + 23 * 8 * 1024**2 + (1024 + 512) * 1024**2  # page tables, cores, VFIO and processes
    assert 195 * GIB < guest(200) < 200 * GIB - added
    assert guest(1) == GIB // 2


def test_each_vm_has_an_address_of_its_own() -> None:
    one, other = virtual_machines.mac_address("vm_1"), virtual_machines.mac_address("vm_2")
    assert (one != other, one == virtual_machines.mac_address("vm_1"), one[:3], len(one)) == (True, True, "02:", 17)


def test_without_a_gateway_nobody_comes_in() -> None:
    policy: Any = tenants.network_policy("i-1", ORGANIZATION, Gateway())
    assert policy["spec"]["ingress"] == []
    assert "Ingress" in policy["spec"]["policyTypes"]


def test_the_cloud_has_its_rights_in_namespaces_of_its_own_alone() -> None:
    binding: Any = tenants.role_binding("instance", "org_A", Account("relay", "cloud"))
    assert (binding["roleRef"], binding["subjects"]) == (
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "relay-cloud-organization"},
        [{"kind": "ServiceAccount", "namespace": "relay", "name": "cloud"}],
    )
    named = {"name": "relay-cloud-organization", "namespace": "relay-org-a"}  # another account has another binding
    assert named.items() <= binding["metadata"].items()


@pytest.mark.parametrize(
    ("subject", "account"),
    [
        ("system:serviceaccount:relay:cloud", Account("relay", "cloud")),
        ("system:node:gpu-1", None),
        (None, None),
    ],
)
def test_whose_token_it_is_says_the_token(subject: str | None, account: Account | None) -> None:
    claims = urlsafe_b64encode(json.dumps({"sub": subject}).encode()).rstrip(b"=").decode()
    assert account_of({"Authorization": f"Bearer head.{claims}.signature"}) == account
    assert account_of({"Authorization": "Bearer opaque"}) is None
