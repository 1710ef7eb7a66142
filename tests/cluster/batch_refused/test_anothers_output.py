"""An output is one batch's: nobody else's ConfigMap is written to, and of two batches with one output one is paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import CREATE_BATCH, KIND, batch, complete, failed, put_prompts, record
from tests.cluster.cloud_log import count
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace


def _refused(item: Manifest | None) -> bool:
    return condition(item, "Failed").get("reason") == "OutputExists"


async def _takes_another(workspace: Workspace) -> bool:
    """Whether the namespace has room for one ConfigMap more; if so, it is there afterwards."""
    try:
        await workspace.kube.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "more-"}})
    except KubeError:
        return False
    return True


async def test_what_is_not_the_batchs_is_not_written_to_though_it_holds_no_answers(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, [record("r1")])
    others = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "others"}, "data": {"ca.crt": "trusted"}}
    await brisk_workspace.apply(others)
    await brisk_workspace.apply(batch("one", output={"configMapRef": {"name": "others"}}))
    await brisk_workspace.becomes(KIND, "one", _refused)
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    assert (await brisk_workspace.kube.get("ConfigMap", "others"))["data"] == {"ca.crt": "trusted"}


async def test_of_two_batches_with_one_output_the_second_is_refused_before_it_is_paid(
    brisk_private_workspace: Workspace,
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.clock(mode="frozen")
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(batch("one"))
    await workspace.becomes(KIND, "one", tells("Running"))
    await workspace.apply(batch("two"))
    await workspace.becomes(KIND, "two", _refused)
    await control.clock(mode="real")
    await workspace.becomes(KIND, "one", complete)
    assert await count(workspace, CREATE_BATCH) == 1
    await workspace.kube.delete(KIND, "one")
    await workspace.is_gone(KIND, "one")
    published = await workspace.kube.get("ConfigMap", "answers")
    assert "output.jsonl" in published["data"]
    assert not published["metadata"].get("ownerReferences")


async def test_what_was_claimed_goes_with_a_batch_that_publishes_nothing(brisk_private_workspace: Workspace) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.clock(mode="frozen")
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(batch("one", deletionPolicy="Discard"))
    await workspace.becomes(KIND, "one", tells("Running"))
    claimed = await workspace.kube.get("ConfigMap", "answers")
    assert [each["name"] for each in claimed["metadata"]["ownerReferences"]] == ["one"]
    await control.clock(mode="real")
    await workspace.kube.delete(KIND, "one")
    await workspace.is_gone("ConfigMap", "answers")


async def test_what_was_claimed_is_free_once_a_batch_has_failed_without_answers(
    brisk_private_workspace: Workspace,
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.clock(mode="frozen")
    await control.settings(batchRecordSeconds=1000)
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(batch("one", activeDeadlineSeconds=3600))
    await workspace.becomes(KIND, "one", tells("Running"))
    long_ago = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    await workspace.kube.patch(KIND, "one", long_ago, subresource="status")
    await workspace.becomes(KIND, "one", tells("Cancelling"))
    await control.clock(mode="real")
    await workspace.becomes(KIND, "one", failed("DeadlineExceeded"))
    assert await workspace.kube.find("ConfigMap", "answers") is None
    await control.settings(batchRecordSeconds=0)
    await workspace.apply(batch("two"))
    await workspace.becomes(KIND, "two", complete)


async def test_answers_are_written_to_what_was_claimed_though_a_quota_is_used_up(
    brisk_private_workspace: Workspace,
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    await control.clock(mode="frozen")
    await put_prompts(workspace, [record("r1")])
    await workspace.apply(batch("one"))
    await workspace.becomes(KIND, "one", tells("Running"))
    full = {"count/configmaps": "2"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": full}}
    await workspace.apply(quota)
    await workspace.kube.patch("ResourceQuota", "full", {"status": {"hard": full, "used": full}}, subresource="status")
    await eventually(lambda: _takes_another(workspace), lambda takes: not takes, what="the quota holds")
    await control.clock(mode="real")
    await workspace.becomes(KIND, "one", complete)
