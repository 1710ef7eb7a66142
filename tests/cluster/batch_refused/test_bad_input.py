"""Bad input is told with its line before anything is paid."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    batch,
    complete,
    failed,
    files_in_cloud,
    jsonl,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.kstatus import kstatus
from tests.support.kube import KubeError
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from tests.support.kube import Kube
    from tests.support.workspace import Workspace

GOOD = record("good")
BAD = {
    "not JSON": (jsonl([GOOD]) + "{oops\n", 2, "invalid_json_line"),
    "a custom_id twice": (jsonl([GOOD, record("x"), GOOD]), 3, "duplicate_custom_id"),
    "no custom_id": (jsonl([GOOD, {"body": GOOD["body"]}]), 2, "missing_custom_id"),
    "another url": (jsonl([{**GOOD, "url": "/v1/messages"}]), 1, "url_mismatch"),
    "another model": (jsonl([GOOD, record("x", model="tools")]), 2, "model_mismatch"),
    "a stream": (jsonl([record("x", stream=True)]), 1, "stream_unsupported"),
    "the retired tool_config": (jsonl([record("x", tool_config={})]), 1, "tool_config_moved"),
    "nothing": ("\n\n", None, "empty_file"),
}


@pytest.mark.parametrize(("text", "line", "code"), BAD.values(), ids=BAD)
async def test_bad_input_fails_the_batch_with_its_line_and_nothing_is_sent(
    brisk_workspace: Workspace, text: str, line: int | None, code: str
) -> None:
    await put_prompts(brisk_workspace, text)
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, failed("InputInvalid"))
    (problem,) = done["status"]["problems"]
    assert (problem.get("line"), problem["code"]) == (line, code)
    assert problem["message"] in condition(done, "Failed")["message"]
    assert kstatus(done) == "Failed"
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    assert await files_in_cloud(brisk_workspace) == []


async def test_all_problems_are_told_at_once(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, jsonl([GOOD]) + "".join("{oops\n" for _ in range(30)))
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, failed("InputInvalid"))
    assert [problem["line"] for problem in done["status"]["problems"]] == list(range(2, 22))
    assert "and 29 more problems" in condition(done, "Failed")["message"]


async def test_an_input_that_is_not_there_is_waited_for(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(batch())
    told = await brisk_workspace.becomes(KIND, NAME, tells("InputMissing"))
    assert "ConfigMap prompts does not exist" in condition(told, "Ready")["message"]
    assert kstatus(told) == "InProgress"
    await put_prompts(brisk_workspace, [GOOD])
    await brisk_workspace.becomes(KIND, NAME, complete)


async def test_a_deadline_also_ends_the_wait_for_an_input(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(batch(activeDeadlineSeconds=1))
    await brisk_workspace.becomes(KIND, NAME, failed("DeadlineExceeded"))


async def test_an_output_that_exists_is_told_before_anything_is_paid(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, [GOOD])
    answers = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers"}}
    await brisk_workspace.apply({**answers, "data": {"output.jsonl": "precious"}})
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, failed("OutputExists"))
    assert "output.onExisting: Replace" in condition(done, "Failed")["message"]
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    kept = await brisk_workspace.kube.get("ConfigMap", "answers")
    assert kept["data"] == {"output.jsonl": "precious"}


async def test_an_output_that_exists_is_replaced_where_asked(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, [GOOD])
    answers = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "answers"}}
    await brisk_workspace.apply({**answers, "data": {"output.jsonl": "old", "other": "kept"}})
    await brisk_workspace.apply(batch(output={"configMapRef": {"name": "answers"}, "onExisting": "Replace"}))
    await brisk_workspace.becomes(KIND, NAME, complete)
    data = (await brisk_workspace.kube.get("ConfigMap", "answers"))["data"]
    assert json.loads(data["output.jsonl"])["custom_id"] == "good"
    assert data["other"] == "kept"


async def test_more_answers_than_a_config_map_holds_are_refused_before_anything_is_paid(
    brisk_workspace: Workspace,
) -> None:
    lines = "".join(f'{{"custom_id":"{number}","body":{{}}}}\n' for number in range(17_000))
    await put_prompts(brisk_workspace, lines)
    await brisk_workspace.apply(batch())
    done = await brisk_workspace.becomes(KIND, NAME, failed("OutputTooLarge"))
    assert "use output.url" in condition(done, "Failed")["message"]
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    assert await files_in_cloud(brisk_workspace) == []


async def test_a_model_that_does_not_exist_fails_the_batch_with_the_clouds_words(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, [GOOD])
    await brisk_workspace.apply(batch(model="no-such-model"))
    done = await brisk_workspace.becomes(KIND, NAME, failed("BatchRefused"))
    assert done["status"]["problems"][0]["code"] == "model_not_found"
    assert await files_in_cloud(brisk_workspace) == []


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two inputs": (
        {"input": {"fileId": "file_1", "inline": [{"customId": "a", "body": {}}]}},
        "set exactly one of inline, configMapRef, secretRef, url and fileId",
    ),
    "no input": ({"input": {}}, "set exactly one of"),
    "two outputs": (
        {"output": {"configMapRef": {"name": "a"}, "url": "s3://bucket/answers"}},
        "set exactly one of url and configMapRef",
    ),
    "an unknown endpoint": ({"endpoint": "/v1/embeddings"}, "endpoint is /v1/chat/completions or /v1/messages"),
    "tools for messages": (
        {"endpoint": "/v1/messages", "toolConfig": {"url": "https://tools.example"}},
        "toolConfig works with the endpoint /v1/chat/completions alone",
    ),
    "tools over plain http": ({"toolConfig": {"url": "http://tools.example"}}, "over https:// only"),
    "an ftp url": ({"input": {"url": "ftp://host/prompts.jsonl"}}, "write s3://, gs://, az://, https://"),
    "credentials without a url": (
        {"output": {"configMapRef": {"name": "a"}, "credentialsSecretRef": {"name": "s"}}},
        "credentialsSecretRef belongs to url",
    ),
    "an empty failure policy": ({"failurePolicy": {}}, "set maxFailedRecords, maxFailedPercent or both"),
    "two budgets": ({"budget": {"maxCost": "0.50", "maxCostNanoUsd": 1}}, "set exactly one of maxCost and"),
    "an empty budget": ({"budget": {}}, "set exactly one of maxCost and maxCostNanoUsd"),
    "a budget of nothing": ({"budget": {"maxCost": "0.00"}}, "maxCost must be above zero"),
    "a budget with a currency": ({"budget": {"maxCost": "$0.50"}}, "spec.budget.maxCost"),
    "a budget below zero": ({"budget": {"maxCost": "-1"}}, "spec.budget.maxCost"),
    "a budget in ten places": ({"budget": {"maxCost": "0.1234567891"}}, "spec.budget.maxCost"),
    "a budget of a million dollars": ({"budget": {"maxCost": "1000000"}}, "spec.budget.maxCost"),
    "metadata of the operator": ({"metadata": {"gpurelay.dev/part": "x"}}, "are the operator's own"),
}


@pytest.mark.parametrize(("spec", "sentence"), REFUSED.values(), ids=REFUSED)
async def test_what_a_schema_can_say_is_refused_at_apply(kube: Kube, spec: dict[str, Any], sentence: str) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.apply(batch(**spec), dry_run=True)
    assert refused.value.status == 422
    assert sentence in refused.value.message


FIXED = {
    "model": "tools",
    "endpoint": "/v1/messages",
    "input": {"configMapRef": {"name": "others", "key": "input.jsonl"}},
    "output": {"configMapRef": {"name": "others"}},
    "metadata": {"team": "other"},
    "retryPolicy": {"maxAttempts": 2},
    "failurePolicy": {"maxFailedRecords": 2},
    "activeDeadlineSeconds": 60,
    "toolConfig": {"url": "https://tools.example"},
}


@pytest.mark.parametrize("field", FIXED)
async def test_what_was_sent_cannot_be_changed(kube: Kube, field: str) -> None:
    manifest = batch(f"fixed-{field.lower()}", suspend=True)
    await kube.create(manifest)
    try:
        with pytest.raises(KubeError) as refused:
            await kube.apply({**manifest, "spec": {**manifest["spec"], field: FIXED[field]}}, dry_run=True)
    finally:
        await kube.delete(KIND, manifest["metadata"]["name"])
    assert f"{field} cannot be changed" in refused.value.message


async def test_suspend_ttl_budget_and_the_deletion_policy_can_be_changed(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(batch(suspend=True))
    change = {
        "suspend": False,
        "ttlSecondsAfterFinished": 100,
        "budget": {"maxCost": "0.50"},
        "deletionPolicy": "Discard",
    }
    await brisk_workspace.kube.patch(KIND, NAME, {"spec": change})
