"""A cluster is replaced without a gap: the new one Ready first, then `connection`, then the end of the old one."""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import BY_ITSELF, changes, left
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

CREATE, _, STOP, _, TERMINATE = BY_ITSELF["GpuCluster"]
OTHER = "example.com/other:1"


def _cluster(image: str = "vllm/vllm-openai:latest", drain: int = 2, policy: str = "Delete") -> Manifest:
    strategy = {"type": "BlueGreen", "drainSeconds": drain}
    access = {"secret": {"name": "access"}}
    return gpu_cluster(image=image, updateStrategy=strategy, connection=access, deletionPolicy=policy)


def _old(item: Manifest | None) -> list[str]:
    return [row["id"] for row in (item or {}).get("status", {}).get("former") or ()]


def _both(item: Manifest | None) -> bool:
    return bool(_old(item) and (item or {})["status"].get("id"))


def _alone(item: Manifest | None) -> bool:
    return ready(item) and not _old(item)


async def _reached(workspace: Workspace) -> str:
    data = (await workspace.kube.get("Secret", "access"))["data"]
    return b64decode(data["id"]).decode()


async def _state(workspace: Workspace, cloud_id: str) -> str:
    state: str = (await workspace.organization.cluster(cloud_id))["status"]
    return state


async def test_the_new_one_is_ready_first_then_the_secret_leads_to_it_then_the_old_one_is_drained_and_ended(
    brisk_private_workspace: Workspace,
) -> None:
    workspace = brisk_private_workspace
    await workspace.apply(_cluster(drain=3600))
    blue = (await workspace.becomes("GpuCluster", "llm"))["status"]["id"]
    await workspace.cloud.control.settings(startSeconds=600)
    await workspace.apply(_cluster(OTHER, drain=3600))
    both = await workspace.becomes("GpuCluster", "llm", _both)
    green = both["status"]["id"]
    assert (_old(both), ready(both), await _reached(workspace)) == ([blue], False, blue)
    assert await _state(workspace, blue) == "running"
    await workspace.cloud.control.advance(600)
    switched = await workspace.becomes("GpuCluster", "llm")
    assert (switched["status"]["id"], _old(switched), await _reached(workspace)) == (green, [blue], green)
    assert (await workspace.organization.cluster(green))["imageUrl"] == OTHER
    assert [await _state(workspace, one) for one in (blue, green)] == ["running", "running"]
    drained = [{**row, "until": "2026-01-01T00:00:00Z"} for row in switched["status"]["former"]]
    await workspace.kube.patch("GpuCluster", "llm", {"status": {"former": drained}}, subresource="status")
    await workspace.becomes("GpuCluster", "llm", _alone)
    assert [await _state(workspace, one) for one in (blue, green)] == ["terminated", "running"]
    assert await changes(workspace) == [CREATE, CREATE, TERMINATE]


async def test_a_failed_new_one_is_ended_and_the_old_one_stays_until_the_spec_changes(
    brisk_private_workspace: Workspace,
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await workspace.apply(_cluster())
    blue = (await workspace.becomes("GpuCluster", "llm"))["status"]["id"]
    await control.settings(startSeconds=600)
    await workspace.apply(_cluster(OTHER))
    green = (await workspace.becomes("GpuCluster", "llm", _both))["status"]["id"]
    await control.event(green, "fail", reason="manifest unknown")
    told = await workspace.becomes("GpuCluster", "llm", lambda item: stalled(item) == "GreenFailed")
    message = condition(told, "Stalled")["message"]
    assert green in message
    assert "manifest unknown" in message
    assert (told["status"]["id"], _old(told), await _reached(workspace)) == (blue, [], blue)
    assert [await _state(workspace, one) for one in (blue, green)] == ["running", "terminated"]
    await workspace.kube.annotate("GpuCluster", "llm", {"gpurelay.dev/reconcile-at": "now"})
    await eventually(
        workspace.kube.looking_at("GpuCluster", "llm"),
        lambda item: (item or {})["status"].get("reconcileAt") == "now",
        what="looked at again",
    )
    assert await changes(workspace) == [CREATE, CREATE, TERMINATE]
    await control.settings(startSeconds=0)
    await workspace.apply(_cluster("example.com/mended:1"))
    mended = await workspace.becomes("GpuCluster", "llm", _alone)
    assert mended["status"]["id"] not in {blue, green}
    assert await _state(workspace, blue) == "terminated"


async def test_the_old_spec_brings_the_old_one_back(brisk_private_workspace: Workspace) -> None:
    workspace = brisk_private_workspace
    await workspace.apply(_cluster())
    blue = (await workspace.becomes("GpuCluster", "llm"))["status"]["id"]
    await workspace.cloud.control.settings(startSeconds=600)
    await workspace.apply(_cluster(OTHER))
    green = (await workspace.becomes("GpuCluster", "llm", _both))["status"]["id"]
    await workspace.apply(_cluster())
    back = await workspace.becomes("GpuCluster", "llm", _alone)
    assert (back["status"]["id"], await _reached(workspace)) == (blue, blue)
    assert [await _state(workspace, one) for one in (blue, green)] == ["running", "terminated"]


@pytest.mark.parametrize("policy", ["Delete", "Stop", "Orphan"])
async def test_deleted_in_the_middle_neither_is_forgotten(brisk_private_workspace: Workspace, policy: str) -> None:
    workspace = brisk_private_workspace
    await workspace.apply(_cluster(policy=policy))
    blue = (await workspace.becomes("GpuCluster", "llm"))["status"]["id"]
    await workspace.cloud.control.settings(startSeconds=600)
    await workspace.apply(_cluster(OTHER, policy=policy))
    green = (await workspace.becomes("GpuCluster", "llm", _both))["status"]["id"]
    await workspace.kube.delete("GpuCluster", "llm")
    await workspace.is_gone("GpuCluster", "llm")
    states = [await _state(workspace, one) for one in (blue, green)]
    match policy:
        case "Delete":
            assert states == ["terminated", "terminated"]
            assert await left(workspace) == []
        case "Stop":
            assert states == ["stopped", "terminated"]
        case _:
            assert (states[0], states[1] in {"terminated", "failed"}) == ("running", False)

            def kept(account: Manifest | None) -> bool:
                return {one["id"] for one in (account or {})["status"].get("kept", ())} == {blue, green}

            await workspace.becomes("CloudAccount", "default", kept)


async def test_only_clusters_have_it_and_the_drain_has_bounds(workspace: Workspace) -> None:
    for refused in (
        gpu_pod(updateStrategy={"type": "BlueGreen"}),
        gpu_cluster(updateStrategy={"type": "BlueGreen", "drainSeconds": -1}),
        gpu_cluster(updateStrategy={"type": "BlueGreen", "drainSeconds": 86_401}),
    ):
        with pytest.raises(KubeError, match="updateStrategy"):
            await workspace.apply(refused)
