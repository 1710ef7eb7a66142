"""Whatever answer is lost, nothing is sent twice: files are found by their name, batches by their metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.cluster.batch_model import FailingModel
from tests.cluster.batch_side import (
    CANCEL_BATCH,
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    Json,
    batch,
    batches_in_cloud,
    complete,
    files_in_cloud,
    inference,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import asked, count
from tests.cluster.conftest import BRISK
from tests.support.eventually import eventually
from tests.support.faultproxy import FaultProxy
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import StartOperator
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

LIST_BATCHES, DOWNLOAD = "GET /v1/batches", "GET /v1/files/{fileId}/content"
ALL = [record(f"r{number}", f"p{number}") for number in range(5)]
PATIENCE = {**BRISK, "absence_after_unknown_seconds": "2"}


@pytest_asyncio.fixture
async def proxy(
    operator_kubeconfig: Path, unattended_workspace: Workspace, tmp_path: Path
) -> AsyncIterator[FaultProxy]:
    """In front of the cloud's inference API."""
    cloud = unattended_workspace.cloud
    further = {Side.INFERENCE: cloud.inference_url}
    between = FaultProxy(tmp_path / "proxy", operator_kubeconfig, cloud.management_url, further)
    await between.start()
    yield between
    await between.stop()


async def test_a_batch_whose_answer_was_lost_is_found_by_its_metadata(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await workspace.cloud.control.fault(CREATE_BATCH, {"drop": "after"}, count=1)
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    done = await workspace.becomes(KIND, NAME, complete)
    assert len(await batches_in_cloud(workspace)) == 1
    assert await count(workspace, CREATE_BATCH) == 1
    assert condition(done, "CreateOutcomeUnknown") == {}
    answers, _ = await published(workspace)
    assert len(answers) == 5


@pytest.mark.parametrize("let_go", ["Orphan", "abandon"])
async def test_what_stays_in_the_cloud_is_recorded_though_its_answer_was_lost(
    unattended_workspace: Workspace, start_operator: StartOperator, let_go: str
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    await control.settings(batchRecordSeconds=1000)
    await control.fault(CREATE_BATCH, {"drop": "after"}, count=1)
    hidden = await control.fault(LIST_BATCHES, {"status": 503})
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch(deletionPolicy="Orphan"))
    await workspace.becomes(KIND, NAME, lambda item: condition(item, "CreateOutcomeUnknown"))
    if let_go == "abandon":
        await workspace.kube.annotate(KIND, NAME, {"gpurelay.dev/abandon": "true"})
    await workspace.kube.delete(KIND, NAME)
    if let_go == "abandon":
        await workspace.is_gone(KIND, NAME)
    await control.end_fault(hidden)
    await workspace.is_gone(KIND, NAME)
    (made,) = await batches_in_cloud(workspace)
    assert made["status"] in {"validating", "in_progress"}
    wanted = {"id": made["id"]} if let_go == "Orphan" else {"name": made["metadata"]["gpurelay.dev/part"]}

    def is_kept(item: Manifest | None) -> bool:
        kept = ((item or {}).get("status") or {}).get("kept", [])
        return any(wanted.items() <= each.items() for each in kept)

    await workspace.becomes("CloudAccount", "default", is_kept)


async def test_a_create_that_never_arrived_is_sent_again_once_the_list_says_so(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    lost = await control.fault(CREATE_BATCH, {"drop": "before"})
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, tells("Searching"))
    await control.end_fault(lost)
    await workspace.becomes(KIND, NAME, complete)
    assert len(await batches_in_cloud(workspace)) == 1


async def test_what_the_cloud_created_too_late_is_cancelled(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    control = workspace.cloud.control
    await control.settings(batchRecordSeconds=1000)
    await control.fault(CREATE_BATCH, {"drop": "before"}, count=1)
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, tells("Running"))
    (sent,) = await batches_in_cloud(workspace)
    copied = {name: sent[name] for name in ("input_file_id", "endpoint", "completion_window", "metadata")}
    refused = await control.fault(CANCEL_BATCH, {"status": 503})
    late = await inference(workspace, "POST", "/v1/batches", copied)
    told = await workspace.becomes(KIND, NAME, lambda item: condition(item, "LateCreate"))
    assert late["id"] in condition(told, "LateCreate")["message"]
    await control.end_fault(refused)
    await workspace.becomes(KIND, NAME, lambda item: not condition(item, "LateCreate"))
    states = {each["id"]: each["status"] for each in await batches_in_cloud(workspace)}
    assert states == {sent["id"]: "in_progress", late["id"]: "cancelled"}


async def test_an_upload_whose_answer_was_lost_is_not_sent_again(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await workspace.cloud.control.fault(UPLOAD, {"drop": "after"}, count=1)
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, complete)
    assert await count(workspace, UPLOAD) == 1
    assert await files_in_cloud(workspace) == []


@pytest.mark.parametrize("ahead", [0, 3600])
async def test_a_status_that_was_lost_is_rebuilt_from_the_cloud_whatever_its_clock_says(
    unattended_workspace: Workspace, start_operator: StartOperator, ahead: int
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    await control.clock(mode="frozen")
    await control.advance(ahead)
    operator = await start_operator(workspace, **PATIENCE, batch_part_bytes="1024")
    await put_prompts(workspace, [record(f"r{number}", f"p{number}") for number in range(20)])
    await workspace.apply(batch())
    await eventually(lambda: count(workspace, CREATE_BATCH), lambda sent: sent == 3, what="three parts")

    def knows_three(item: Manifest | None) -> bool:
        return tells("Running")(item) and all("batchId" in part for part in (item or {})["status"]["parts"])

    running = await workspace.becomes(KIND, NAME, knows_three)
    await operator.kill()
    empty = dict.fromkeys(running["status"])
    await workspace.kube.patch(KIND, NAME, {"status": empty}, subresource="status")
    await operator.start()
    rebuilt = await workspace.becomes(KIND, NAME, tells("Running"))
    assert {part["batchId"] for part in rebuilt["status"]["parts"]} == {
        each["id"] for each in await batches_in_cloud(workspace)
    }
    await control.clock(mode="real")
    done = await workspace.becomes(KIND, NAME, complete)
    assert await count(workspace, CREATE_BATCH) == 3
    answers, errors = await published(workspace)
    assert (len(answers), errors) == (20, {})
    assert done["status"]["requestCounts"] == {"total": 20, "completed": 20, "failed": 0}


@pytest.mark.parametrize("lost", ["status", "status, intent and finalizer"])
async def test_the_id_of_a_part_that_is_on_its_way_brings_back_what_was_lost_meanwhile(
    unattended_workspace: Workspace, proxy: FaultProxy, start_operator: StartOperator, lost: str
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    await control.settings(batchRecordSeconds=1000)
    urls = f"{workspace.cloud.management_url},{proxy.urls[Side.INFERENCE]}"
    await workspace.kube.patch("CloudAccount", "default", {"spec": {"inferenceUrl": proxy.urls[Side.INFERENCE]}})
    proxy.arm(Rule(Side.INFERENCE, CREATE_BATCH, Hold(Moment.BEFORE, Deed.NONE), nth=2))
    await start_operator(workspace, **PATIENCE, batch_part_bytes="1024", allowed_base_urls=urls)
    await put_prompts(workspace, [record(f"r{number}", f"p{number}") for number in range(20)])
    await workspace.apply(batch())

    def parts(item: Manifest | None) -> list[Json]:
        return (item or {}).get("status", {}).get("parts") or []

    def second_is_sent(item: Manifest | None) -> bool:
        return len(parts(item)) == 3 and "batchId" in parts(item)[0] and "sentAt" in parts(item)[1]

    sent = await workspace.becomes(KIND, NAME, second_is_sent)
    held = await proxy.held.get()
    await workspace.kube.patch(KIND, NAME, {"status": dict.fromkeys(sent["status"])}, subresource="status")
    if lost != "status":
        bare = {"annotations": dict.fromkeys(sent["metadata"]["annotations"]), "finalizers": None}
        await workspace.kube.patch(KIND, NAME, {"metadata": bare})
    held.release()

    def all_are_known(item: Manifest | None) -> bool:
        return len(parts(item)) == 3 and all("batchId" in part for part in parts(item))

    running = await workspace.becomes(KIND, NAME, all_are_known)
    known = {part["batchId"] for part in parts(running)}
    assert known == {each["id"] for each in await batches_in_cloud(workspace)}
    assert running["status"]["createToken"] == sent["status"]["createToken"]
    assert (await count(workspace, CREATE_BATCH), await count(workspace, CANCEL_BATCH)) == (3, 0)


@pytest.mark.parametrize(("where", "failing"), [("ConfigMap", True), ("store", False), ("store", True)])
async def test_a_finished_batch_whose_status_is_lost_is_finished_as_it_was(
    unattended_workspace: Workspace, start_operator: StartOperator, where: str, failing: bool, tmp_path: Path
) -> None:
    """Its files are gone from the cloud: what was published tells how it ended, also if a record failed."""
    workspace = unattended_workspace
    folder = tmp_path / "published"
    (folder / "out").mkdir(parents=True)
    operator = await start_operator(workspace, **PATIENCE, file_roots=str(folder))
    await put_prompts(workspace, ALL)
    output = {"configMapRef": {"name": "answers"}} if where == "ConfigMap" else {"url": f"file://{folder}/out"}
    async with FailingModel() as model:
        model.failing = {"p1": (1, 400)} if failing else {}
        await model.serve(workspace)
        await workspace.apply(batch(output=output, model=model.name))
        before = (await workspace.becomes(KIND, NAME, complete))["status"]
    assert before["requestCounts"]["failed"] == failing

    async def written() -> object:
        if where == "ConfigMap":
            return (await workspace.kube.get("ConfigMap", "answers"))["data"]
        return {path.name: path.read_bytes() for path in (folder / "out").iterdir()}

    told = await written()
    assert await files_in_cloud(workspace) == []
    await operator.kill()
    await workspace.kube.patch(KIND, NAME, {"status": dict.fromkeys(before)}, subresource="status")
    await operator.start()
    after = (await workspace.becomes(KIND, NAME, complete))["status"]
    for name in ("requestCounts", "usage", "cost", "completionTime", "createToken", "identity", "id", "cleared"):
        assert after[name] == before[name], name
    assert {name: after["output"][name] for name in ("answers", "errors", "lines")} == {
        name: before["output"][name] for name in ("answers", "errors", "lines")
    }
    assert await written() == told
    assert await count(workspace, CREATE_BATCH) == 1


async def test_an_intent_that_was_copied_with_its_manifest_is_not_the_copys_own(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    first = await workspace.becomes(KIND, NAME, complete)
    copy = batch("copy", output={"configMapRef": {"name": "copied"}})
    copy["metadata"]["annotations"] = first["metadata"]["annotations"]
    await workspace.apply(copy)
    second = await workspace.becomes(KIND, "copy", complete)
    assert second["status"]["createToken"] != first["status"]["createToken"]
    assert len(await batches_in_cloud(workspace)) == 2


async def test_what_two_batches_record_is_cancelled_by_neither_until_one_lets_go(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace, control = unattended_workspace, unattended_workspace.cloud.control
    await control.clock(mode="frozen")
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.apply(batch("other", output={"configMapRef": {"name": "others"}}))
    running = await workspace.becomes(KIND, NAME, tells("Running"))
    await workspace.becomes(KIND, "other", tells("Running"))
    recorded = {name: running["status"][name] for name in ("id", "createToken", "parts")}
    await workspace.kube.patch(KIND, "other", {"status": recorded}, subresource="status")
    await workspace.becomes(KIND, NAME, lambda item: stalled(item) == "IdentityMismatch")
    told = await workspace.becomes(KIND, "other", lambda item: stalled(item) == "IdentityMismatch")
    message = condition(told, "Stalled")["message"]
    assert f"also recorded by {KIND}/{workspace.namespace}/{NAME}: " in message
    await workspace.kube.delete(KIND, "other")
    await workspace.becomes(
        KIND, "other", lambda item: "the deletion waits" in condition(item, "Stalled").get("message", "")
    )
    assert await count(workspace, CANCEL_BATCH) == 0
    await workspace.obey(message)
    await workspace.is_gone(KIND, "other")
    await control.clock(mode="real")
    await workspace.becomes(KIND, NAME, complete)
    assert await count(workspace, CANCEL_BATCH) == 0


async def test_the_operator_killed_while_the_batch_runs_goes_on_where_it_was(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    await workspace.cloud.control.clock(mode="frozen")
    operator = await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    await workspace.becomes(KIND, NAME, tells("Running"))
    await operator.kill()
    await workspace.cloud.control.clock(mode="real")
    await operator.start()
    await workspace.becomes(KIND, NAME, complete)
    assert len(await asked(workspace, CREATE_BATCH)) == 1
    assert await count(workspace, UPLOAD) == 1


async def test_one_wrong_file_of_answers_does_not_stand_for_the_paid_ones(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    workspace = unattended_workspace
    fault = await workspace.cloud.control.fault(DOWNLOAD, {"status": 200, "body": {}}, count=1)
    await start_operator(workspace, **PATIENCE)
    await put_prompts(workspace, ALL)
    await workspace.apply(batch())
    done = await workspace.becomes(KIND, NAME, complete)
    assert done["status"]["requestCounts"] == {"total": 5, "completed": 5, "failed": 0}
    assert "problems" not in done["status"]
    assert await workspace.cloud.control.was_met(fault)
