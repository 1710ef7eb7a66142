"""Every place that records can come from."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    UPLOAD,
    batch,
    batches_in_cloud,
    complete,
    content_of,
    failed,
    files_in_cloud,
    jsonl,
    published,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.manifests import condition, tells

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import StartOperator
    from tests.support.workspace import Workspace

from tests.cluster.conftest import BRISK

ALL = [record(f"r{number}", f"p{number}") for number in range(3)]
ANSWERS = {f"r{number}": f"p{number}" for number in range(3)}


async def _answered(workspace: Workspace) -> dict[str, str]:
    await workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(workspace)
    assert errors == {}
    return {each: content_of(answer) for each, answer in answers.items()}


async def test_records_in_the_object_itself(brisk_workspace: Workspace) -> None:
    inline = [{"customId": each["custom_id"], "body": each["body"]} for each in ALL]
    await brisk_workspace.apply(batch(input={"inline": inline}))
    assert await _answered(brisk_workspace) == ANSWERS


async def test_records_in_a_secret(brisk_workspace: Workspace) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prompts"}}
    await brisk_workspace.apply({**secret, "stringData": {"input.jsonl": jsonl(ALL)}})
    await brisk_workspace.apply(batch(input={"secretRef": {"name": "prompts", "key": "input.jsonl"}}))
    assert await _answered(brisk_workspace) == ANSWERS


async def test_records_in_the_binary_data_of_a_config_map(brisk_workspace: Workspace) -> None:
    data = {"input.jsonl": base64.b64encode(jsonl(ALL).encode()).decode()}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompts"}, "binaryData": data}
    await brisk_workspace.apply(manifest)
    await brisk_workspace.apply(batch())
    assert await _answered(brisk_workspace) == ANSWERS


async def test_records_in_a_folder_that_the_administrator_allows(
    brisk_workspace: Workspace, batch_folder: Path
) -> None:
    (batch_folder / "prompts.jsonl").write_text(jsonl(ALL))
    await brisk_workspace.apply(batch(input={"url": f"file://{batch_folder}/prompts.jsonl"}))
    assert await _answered(brisk_workspace) == ANSWERS


async def test_a_folder_that_is_not_allowed_is_told(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(batch(input={"url": "file:///etc/passwd"}))
    told = await brisk_workspace.becomes(KIND, NAME, tells("InputUnavailable"))
    assert "root:" not in str(told["status"])


async def test_a_file_of_the_cloud_is_used_as_it_is_and_never_deleted(brisk_workspace: Workspace) -> None:
    complete_records = [
        {**each, "method": "POST", "url": "/v1/chat/completions", "body": {**each["body"], "model": "echo"}}
        for each in ALL
    ]
    file_id = await _upload(brisk_workspace, jsonl(complete_records))
    await brisk_workspace.apply(batch(input={"fileId": file_id}))
    assert await _answered(brisk_workspace) == ANSWERS
    assert await count(brisk_workspace, UPLOAD) == 1, "the test's own"
    assert [each["id"] for each in await files_in_cloud(brisk_workspace)] == [file_id]


async def test_records_of_the_clouds_file_that_are_not_complete_are_completed_in_another(
    brisk_workspace: Workspace,
) -> None:
    file_id = await _upload(brisk_workspace, jsonl(ALL))
    await brisk_workspace.apply(batch(input={"fileId": file_id}))
    assert await _answered(brisk_workspace) == ANSWERS
    assert await count(brisk_workspace, UPLOAD) == 2
    assert [each["id"] for each in await files_in_cloud(brisk_workspace)] == [file_id]


async def test_a_file_that_the_cloud_does_not_have_fails_the_batch(brisk_workspace: Workspace) -> None:
    await brisk_workspace.apply(batch(input={"fileId": "file_none"}))
    done = await brisk_workspace.becomes(KIND, NAME, failed("InputMissing"))
    assert "file_none" in condition(done, "Failed")["message"]


async def test_a_file_that_the_organization_may_not_read_now_is_waited_for(brisk_workspace: Workspace) -> None:
    control, own = brisk_workspace.cloud.control, brisk_workspace.organization.id
    file_id = await _upload(brisk_workspace, jsonl(ALL))
    await control.change_organization(own, batchAccess=False)
    await brisk_workspace.apply(batch(input={"fileId": file_id}))
    await brisk_workspace.becomes(KIND, NAME, tells("AccountForbidden"))
    await control.change_organization(own, batchAccess=True)
    assert await _answered(brisk_workspace) == ANSWERS


async def test_messages_are_answered_as_well(brisk_workspace: Workspace) -> None:
    records = [record("m", "hello", max_tokens=5)]
    await put_prompts(brisk_workspace, records)
    await brisk_workspace.apply(batch(endpoint="/v1/messages"))
    await brisk_workspace.becomes(KIND, NAME, complete)
    answers, _ = await published(brisk_workspace)
    assert answers["m"]["response"]["body"]["content"][0]["text"] == "hello"


async def test_metadata_is_put_on_the_batch_in_the_cloud(brisk_workspace: Workspace) -> None:
    await put_prompts(brisk_workspace, ALL)
    await brisk_workspace.apply(batch(metadata={"team": "search"}))
    await brisk_workspace.becomes(KIND, NAME, complete)
    (one,) = await batches_in_cloud(brisk_workspace)
    assert one["metadata"]["team"] == "search"


async def test_a_large_input_is_split_and_its_answers_are_one(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    await start_operator(unattended_workspace, **BRISK, batch_part_bytes="1024")
    records = [record(f"r{number}", f"p{number}") for number in range(30)]
    await put_prompts(unattended_workspace, records)
    await unattended_workspace.apply(batch())
    done = await unattended_workspace.becomes(KIND, NAME, complete)
    answers, errors = await published(unattended_workspace)
    assert {each: content_of(answer) for each, answer in answers.items()} == {f"r{n}": f"p{n}" for n in range(30)}
    assert errors == {}
    assert len(done["status"]["parts"]) == await count(unattended_workspace, CREATE_BATCH) > 3
    assert done["status"]["requestCounts"] == {"total": 30, "completed": 30, "failed": 0}


async def test_a_duplicate_across_parts_is_found_and_nothing_is_paid(
    unattended_workspace: Workspace, start_operator: StartOperator
) -> None:
    await start_operator(unattended_workspace, **BRISK, batch_part_bytes="1024")
    records = [record(f"r{number % 29}", f"p{number}") for number in range(30)]
    await put_prompts(unattended_workspace, records)
    await unattended_workspace.apply(batch())
    done = await unattended_workspace.becomes(KIND, NAME, failed("InputInvalid"))
    assert done["status"]["problems"][0]["line"] == 30
    assert await count(unattended_workspace, CREATE_BATCH) == 0
    assert await files_in_cloud(unattended_workspace) == []


async def _upload(workspace: Workspace, text: str) -> str:
    form: Any = aiohttp.FormData()
    form.add_field("purpose", "batch")
    form.add_field("file", text.encode(), filename="mine.jsonl")
    headers = {"Authorization": f"Bearer {workspace.organization.api_key}"}
    url = workspace.cloud.inference_url + "/v1/files"
    async with aiohttp.ClientSession(headers=headers) as session, session.post(url, data=form) as reply:
        file_id: str = (await reply.json())["id"]
        return file_id
