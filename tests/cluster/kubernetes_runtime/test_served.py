"""`relay-localcloud serve --runtime kubernetes`: a pod from its create to its end, with kills of the cloud between."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_localcloud.__main__ import main
from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.cluster.kubernetes_runtime import groups
from tests.cluster.kubernetes_runtime.served import TINY
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.localcloud import LocalCloud
from tests.support.process import StartError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.kubernetes_runtime.served import Served


async def uids(served: Served, kind: str) -> list[str]:
    """Of all objects of a kind that its namespace has and that stay."""
    found = await served.kube.list(kind, served.namespace)
    return [each["metadata"]["uid"] for each in found if not each["metadata"].get("deletionTimestamp")]


async def leaves_nothing(served: Served, pod_id: str) -> None:
    """Its Pod goes, and with it whatever else it had."""
    await served.leaves(pod_id)
    await served.kubelet_removes(name_of(pod_id))
    for kind in ("Pod", "Secret", "PersistentVolumeClaim"):
        await served.gone(kind, pod_id)


async def cents(served: Served, pod_id: str) -> int:
    """What it cost so far."""
    (billed,) = [each["cents"] for each in await served.organization.billed() if each["resourceId"] == pod_id]
    return int(billed)


async def test_a_pod_lives_and_ends_once_however_often_the_cloud_is_killed(served: Served) -> None:
    pod_id = await served.post(name="one")
    await served.killed_and_started()
    first = (await served.pod(pod_id))["metadata"]["uid"]
    await served.end()
    await served.scheduler_binds(pod_id)
    await served.kubelet_runs(pod_id)
    await served.start()
    await served.becomes(pod_id, "running")
    await served.killed_and_started()
    witness = await served.runs(name="witness")  # so the new process looked at both
    both = {first, (await served.pod(witness))["metadata"]["uid"]}
    assert set(await uids(served, "Pod")) == both
    await served.becomes(pod_id, "running")
    await served.act(witness, "terminate")
    await leaves_nothing(served, witness)
    volumes = await uids(served, "PersistentVolumeClaim")
    assert len(volumes) == 1

    await served.act(pod_id, "stop")
    await served.killed_and_started()
    await served.leaves(pod_id)
    await served.kubelet_removes(name_of(pod_id))
    await served.becomes(pod_id, "stopped")
    await served.gone("Secret", pod_id)
    stopped = await cents(served, pod_id)
    assert stopped > 0
    assert await uids(served, "PersistentVolumeClaim") == volumes

    await served.act(pod_id, "restart")
    await served.killed_and_started()
    second = (await served.pod(pod_id, other_than=first))["metadata"]["uid"]
    await served.scheduler_binds(pod_id)
    await served.kubelet_runs(pod_id)
    await served.becomes(pod_id, "running")
    assert await uids(served, "Pod") == [second]
    assert await uids(served, "PersistentVolumeClaim") == volumes

    await served.act(pod_id, "terminate")
    await served.killed_and_started()
    await leaves_nothing(served, pod_id)
    assert await cents(served, pod_id) >= stopped


async def test_what_has_no_gpu_is_sold_in_the_sizes_of_the_document(served: Served) -> None:
    assert (await served.organization.call("GET", "/v1/pricing"))["cpu"] == [TINY]
    cluster_id = await groups.post(served, gpuModelId=None)
    (replica_id,) = await groups.replicas(served, cluster_id, 1)
    (container,) = (await served.pod(replica_id))["spec"]["containers"]
    assert container["resources"]["limits"].items() >= {"cpu": "1", "memory": str(512 * 2**20)}.items()


async def test_it_ends_when_it_is_told_to_and_its_workloads_go_on(served: Served) -> None:
    pod_id = await served.runs()
    assert await served.cloud.process.stop(PATIENCE_SECONDS) == 0
    pod = await served.pod(pod_id)
    assert pod["metadata"].get("deletionTimestamp") is None
    await served.start()
    await served.becomes(pod_id, "running")


async def test_a_state_is_served_by_the_runtime_that_it_began_with(served: Served, tmp_path: Path) -> None:
    await served.end()
    simulated = LocalCloud(tmp_path, served.ports)
    with pytest.raises(StartError, match="belongs to --runtime kubernetes: serve it with that"):
        await simulated.start()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "--runtime kubernetes needs --state DIR"),
        (["--state", "DIR", "--clock", "frozen"], "works with neither --seed nor --clock frozen"),
        (["--state", "DIR"], "needs --runtime-config FILE"),
        (["--state", "DIR", "--runtime-config", "DIR/absent.yaml"], "absent.yaml cannot be read"),
    ],
)
def test_what_cannot_be_started_says_what_it_needs(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [option.replace("DIR", str(tmp_path)) for option in options]
    assert main(["serve", "--runtime", "kubernetes", *chosen]) == 1
    assert words in capsys.readouterr().err


def test_options_of_a_cluster_are_refused_where_nothing_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--cluster", "eu=there"]) == 1
    assert "--runtime-config and --cluster need --runtime kubernetes" in capsys.readouterr().err
