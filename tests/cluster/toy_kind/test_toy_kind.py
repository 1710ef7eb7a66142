"""A kind is its file and its line: created, changed, adopted, deleted, and neither doubled nor forgotten by a kill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.cloud_log import CREATE_CLUSTER, SCALE_CLUSTER, TERMINATE_CLUSTER, changes, count
from tests.cluster.toy_kind.conftest import delete_crd, install_crd
from tests.support.eventually import eventually
from tests.support.manifests import gpu_pod

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace


def _toy(name: str = "toy", replicas: int = 1, **annotations: str) -> Manifest:
    noted = {f"gpurelay.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "gpurelay.dev/v1alpha1",
        "kind": "Toy",
        "metadata": {"name": name, "annotations": noted},
        "spec": {"image": "vllm/vllm-openai:v1", "replicas": replicas},
    }


async def test_a_toy_is_created_changed_and_deleted(toys: Workspace, operator: Operator) -> None:
    assert operator.process.running
    await toys.apply(_toy())
    made = (await toys.becomes("Toy", "toy"))["status"]
    assert (await toys.organization.cluster(made["id"]))["name"] == made["cloudName"]
    await toys.apply(_toy(replicas=2))

    async def replicas() -> object:
        return (await toys.organization.cluster(made["id"]))["replicaCount"]

    await eventually(replicas, lambda number: number == 2, what="the cloud has two replicas")
    await toys.becomes("Toy", "toy", _is_about(2))
    await toys.kube.delete("Toy", "toy")
    await toys.is_gone("Toy", "toy")
    assert await toys.organization.clusters() == []
    assert await changes(toys) == [CREATE_CLUSTER, SCALE_CLUSTER, TERMINATE_CLUSTER]


async def test_a_toy_takes_over_what_exists(toys: Workspace, operator: Operator) -> None:
    assert operator.process.running
    body = {"name": "by-hand", "replicaCount": 1, "imageUrl": "vllm/vllm-openai:v1"}
    path = f"/v1/orgs/{toys.organization.id}/clusters/create"
    by_hand = await toys.organization.call("POST", path, body)
    await toys.apply(_toy(adopt_id=by_hand["id"]))
    assert (await toys.becomes("Toy", "toy"))["status"]["id"] == by_hand["id"]
    assert await count(toys, CREATE_CLUSTER) == 1


async def test_a_toy_whose_operator_is_killed_as_it_creates_is_neither_doubled_nor_forgotten(
    toys: Workspace, operator: Operator
) -> None:
    await toys.apply(_toy())
    await eventually(lambda: count(toys, CREATE_CLUSTER), lambda number: number == 1, every=0.005)
    await operator.kill()
    await operator.start()
    status = (await toys.becomes("Toy", "toy"))["status"]
    assert [cluster["id"] for cluster in await toys.organization.clusters()] == [status["id"]]
    await operator.kill()
    await toys.kube.delete("Toy", "toy")
    await operator.start()
    await toys.is_gone("Toy", "toy")
    assert await toys.organization.clusters() == []
    assert await count(toys, CREATE_CLUSTER) == 1


async def test_when_the_crd_is_deleted_what_toys_have_is_ended_and_other_kinds_do_not_wait(
    toys: Workspace, operator: Operator
) -> None:
    process = operator.process.pid
    await toys.apply(_toy())
    await toys.becomes("Toy", "toy")
    await delete_crd(toys)
    assert await toys.organization.clusters() == []

    async def told() -> str:
        return operator.log.read_text()

    await eventually(told, lambda text: "the CRD of Toy is absent" in text, what="it notices that the CRD is gone")
    await toys.apply(gpu_pod("before"))
    await toys.becomes("GpuPod", "before")
    assert operator.process.pid == process
    await operator.restart()
    await toys.apply(gpu_pod("after"))
    await toys.becomes("GpuPod", "after")
    await install_crd(toys)
    await toys.apply(_toy())
    await toys.becomes("Toy", "toy")


def _is_about(generation: int) -> Callable[[Manifest | None], bool]:
    def ready_now(item: Manifest | None) -> bool:
        conditions = (item or {}).get("status", {}).get("conditions", [])
        return any(
            each["type"] == "Ready" and each["status"] == "True" and each["observedGeneration"] == generation
            for each in conditions
        )

    return ready_now
