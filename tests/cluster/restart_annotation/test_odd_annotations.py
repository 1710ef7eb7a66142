"""Annotations as long as the API server takes them, and empty ones: acted on once, and in nobody's way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_schedule.runs import batch_schedule
from tests.cluster.batch_side import batch, put_prompts, record
from tests.cluster.cloud_log import BY_ITSELF, count
from tests.support.manifests import gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

LONG = "2026-11-21T10:00:00Z" * 10_000
PREFIX = "gpurelay.dev/"
MADE: dict[str, Manifest] = {
    "GpuPod": gpu_pod("one"),
    "GpuCluster": gpu_cluster("one"),
    "InferenceBatch": batch("one"),
    "InferenceBatchSchedule": batch_schedule("one"),
}


def _echoes(field: str, *, not_: str = "") -> Callable[[Manifest | None], bool]:
    def echoes(item: Manifest | None) -> bool:
        told: str = (item or {}).get("status", {}).get(field, "")
        return told.startswith("sha256:") and told != not_

    return echoes


@pytest.mark.parametrize("kind", [*MADE, "CloudAccount"])
async def test_a_long_reconcile_at_is_acted_on_and_the_object_can_be_deleted(
    brisk_workspace: Workspace, kind: str
) -> None:
    name = "one" if kind in MADE else "default"
    await put_prompts(brisk_workspace, [record("r1")])
    if kind in MADE:
        await brisk_workspace.apply(MADE[kind])
    await brisk_workspace.becomes(kind, name, ready)
    await brisk_workspace.kube.annotate(kind, name, {f"{PREFIX}reconcile-at": LONG})
    first = await brisk_workspace.becomes(kind, name, _echoes("reconcileAt"))
    await brisk_workspace.kube.annotate(kind, name, {f"{PREFIX}reconcile-at": LONG[:-1]})
    second = _echoes("reconcileAt", not_=first["status"]["reconcileAt"])
    await brisk_workspace.becomes(kind, name, second)
    await brisk_workspace.kube.annotate(kind, name, {f"{PREFIX}reconcile-at": ""})
    await brisk_workspace.becomes(kind, name, lambda item: "reconcileAt" not in (item or {})["status"])
    await brisk_workspace.kube.delete(kind, name)
    await brisk_workspace.is_gone(kind, name)


@pytest.mark.parametrize("kind", ["GpuPod", "GpuCluster"])
async def test_a_long_restarted_at_restarts_once(brisk_workspace: Workspace, kind: str) -> None:
    restart = BY_ITSELF[kind][3]
    await brisk_workspace.apply(MADE[kind])
    await brisk_workspace.becomes(kind, "one")
    await brisk_workspace.kube.annotate(kind, "one", {f"{PREFIX}restarted-at": LONG})
    await brisk_workspace.becomes(kind, "one", lambda item: ready(item) and _echoes("restartedAt")(item))
    await brisk_workspace.kube.annotate(kind, "one", {f"{PREFIX}reconcile-at": "now"})
    await brisk_workspace.becomes(kind, "one", lambda item: (item or {})["status"].get("reconcileAt") == "now")
    assert await count(brisk_workspace, restart) == 1


@pytest.mark.parametrize("named", ["..", "a/../b", "-x", LONG], ids=["a parent", "a path", "an option", "long"])
async def test_what_is_no_id_is_not_adopted_and_that_is_told(brisk_workspace: Workspace, named: str) -> None:
    manifest = gpu_pod("one")
    manifest["metadata"]["annotations"] = {f"{PREFIX}adopt-id": named}
    await brisk_workspace.apply(manifest)
    told = await brisk_workspace.becomes("GpuPod", "one", lambda item: stalled(item) == "AdoptionRefused")
    assert "is not an id of the cloud" in told["status"]["conditions"][0]["message"]
    await brisk_workspace.kube.delete("GpuPod", "one")
    await brisk_workspace.is_gone("GpuPod", "one")


@pytest.mark.parametrize("noted", ["..", "../configmaps/x", "s" * 200_000], ids=["a parent", "a path", "long"])
async def test_an_account_whose_note_of_its_secret_was_edited_can_be_deleted(
    brisk_workspace: Workspace, noted: str
) -> None:
    await brisk_workspace.becomes("CloudAccount", "default")
    await brisk_workspace.kube.annotate("CloudAccount", "default", {f"{PREFIX}api-key-secret": noted})
    await brisk_workspace.kube.delete("CloudAccount", "default")
    await brisk_workspace.is_gone("CloudAccount", "default")


async def test_an_intent_as_long_as_a_book_is_one_that_cannot_be_read(brisk_workspace: Workspace) -> None:
    manifest = gpu_pod("one")
    manifest["metadata"]["annotations"] = {f"{PREFIX}create-intent": "{" + " " * 200_000 + "}"}
    await brisk_workspace.apply(manifest)
    told = await brisk_workspace.becomes("GpuPod", "one", lambda item: stalled(item) == "CreateOutcomeUnknown")
    assert "it is too long" in told["status"]["conditions"][0]["message"]
    await brisk_workspace.kube.annotate("GpuPod", "one", {f"{PREFIX}retry-create": "yes"})
    await brisk_workspace.becomes("GpuPod", "one", ready)
