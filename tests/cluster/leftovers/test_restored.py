"""etcd is restored to before a resource was recreated: what runs now is neither ended nor doubled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.cloud_log import CREATE_CLUSTER, CREATE_POD, changes, left
from tests.support.manifests import condition, gpu_cluster, gpu_pod, ready, stalled

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

INTENT, PAUSED = "gpurelay.dev/create-intent", "gpurelay.dev/paused"
RECREATE = {"onTerminated": "Recreate"}


@pytest.mark.parametrize(
    ("manifest", "end", "create"),
    [
        (gpu_pod("one", recovery=RECREATE), "/v1/vms/{}/terminate", CREATE_POD),
        (gpu_cluster("one", replicas=1, recovery=RECREATE), "/v1/clusters/{}/terminate", CREATE_CLUSTER),
    ],
    ids=["pod", "cluster"],
)
async def test_what_was_recreated_after_the_backup_runs_on_until_its_object_takes_it(
    brisk_workspace: Workspace, manifest: Manifest, end: str, create: str
) -> None:
    workspace, kube, kind = brisk_workspace, brisk_workspace.kube, manifest["kind"]
    await workspace.apply(manifest)
    backup = await workspace.becomes(kind, "one")
    first = backup["status"]["id"]
    await workspace.organization.call("POST", end.format(first))
    recreated = await workspace.becomes(kind, "one", lambda item: ready(item) and (item or {})["status"]["id"] != first)
    second = recreated["status"]["id"]

    await kube.annotate(kind, "one", {PAUSED: "true"})
    await workspace.becomes(kind, "one", lambda item: condition(item, "Paused"))
    await kube.patch(kind, "one", {"spec": {"recovery": {"onTerminated": "Stall"}}})
    await kube.patch(kind, "one", {"status": backup["status"]}, subresource="status")
    await kube.annotate(kind, "one", {INTENT: backup["metadata"]["annotations"][INTENT], PAUSED: None})
    await workspace.becomes(kind, "one", lambda item: stalled(item) == "TerminatedExternally")
    await workspace.becomes(
        "CloudAccount",
        "default",
        lambda account: [each["id"] for each in (account or {})["status"].get("orphans", ())] == [second],
    )
    assert await left(workspace) == [second]

    await workspace.apply(manifest)
    taken = await workspace.becomes(kind, "one")
    assert (taken["status"]["id"], await left(workspace)) == (second, [second])
    assert (await changes(workspace)).count(create) == len(await changes(workspace)) - 1, "the first was ended by hand"
    await workspace.becomes("CloudAccount", "default", lambda account: not (account or {})["status"].get("orphans"))
