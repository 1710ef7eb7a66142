"""Somebody's admission policy refuses an account's finalizer: it could be gone before what is created with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tests.cluster.admission import refusing
from tests.cluster.batch_side import CREATE_BATCH, UPLOAD, batch, put_prompts, record
from tests.cluster.cloud_log import CREATE_POD, count
from tests.support.kube import RESOURCES
from tests.support.manifests import cloud_account, gpu_pod, tells

if TYPE_CHECKING:
    from tests.support.workspace import Workspace

FINALIZER = "gpurelay.dev/cloud-resource"
REFUSAL = "no finalizers here"


async def test_nothing_is_created_until_the_account_is_protected(brisk_workspace: Workspace) -> None:
    workspace, kube, cloud = brisk_workspace, brisk_workspace.kube, brisk_workspace.cloud
    named = f"object.metadata.namespace != '{workspace.namespace}' || object.metadata.name != 'late'"
    unheld = f"!has(object.metadata.finalizers) || !('{FINALIZER}' in object.metadata.finalizers)"
    rule = {
        "apiGroups": ["gpurelay.dev"],
        "apiVersions": ["*"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["cloudaccounts"],
    }
    account = cloud_account(cloud.management_url, cloud.inference_url, "late")
    rehearsed = {**account, "metadata": {**account["metadata"], "finalizers": [FINALIZER]}}
    path = RESOURCES["CloudAccount"].path(workspace.namespace)
    rehearsal = partial(kube.call, "POST", path, rehearsed, params={"dryRun": "All"})
    ref = {"kind": "CloudAccount", "name": "late"}
    await put_prompts(workspace, [record("a")])
    async with refusing(kube, f"unheld-{workspace.namespace}", rule, f"{named} || {unheld}", REFUSAL, rehearsal):
        for manifest in (account, gpu_pod(accountRef=ref), batch("nightly", accountRef=ref)):
            await workspace.apply(manifest)
        await workspace.becomes("CloudAccount", "late", tells("WriteRefused", REFUSAL))
        for kind, name in (("GpuPod", "trainer"), ("InferenceBatch", "nightly")):
            await workspace.becomes(kind, name, tells("WaitingForAccount", "has no finalizer of the operator yet"))
        assert await count(workspace, CREATE_POD, UPLOAD, CREATE_BATCH) == 0
    await workspace.becomes("CloudAccount", "late")
    await workspace.becomes("GpuPod", "trainer")
    await workspace.becomes("InferenceBatch", "nightly")
