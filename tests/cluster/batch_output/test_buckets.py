"""From a bucket to a bucket; whatever is wrong with one is told, and no paid answer is lost by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.batch_side import (
    CREATE_BATCH,
    KIND,
    NAME,
    batch,
    by_custom_id,
    complete,
    content_of,
    failed,
    files_in_cloud,
    jsonl,
    put_prompts,
    record,
)
from tests.cluster.cloud_log import count
from tests.support.manifests import condition, stalled, tells

if TYPE_CHECKING:
    from tests.cluster.batch_output.conftest import Bucket
    from tests.support.workspace import Workspace

ALL = [record(f"r{number}", f"p{number}") for number in range(5)]
SECRET = {"name": "bucket"}


async def test_records_of_a_bucket_are_answered_into_a_bucket(brisk_workspace: Workspace, bucket: Bucket) -> None:
    await bucket.server.put(bucket.name, "in/prompts.jsonl", jsonl(ALL).encode())
    source = {"url": bucket.url("in/prompts.jsonl"), "credentialsSecretRef": SECRET}
    await brisk_workspace.apply(batch(input=source, output={"url": bucket.url("out/"), "credentialsSecretRef": SECRET}))
    done = await brisk_workspace.becomes(KIND, NAME, complete)
    answers = by_custom_id(await bucket.text("out/output.jsonl"))
    assert {each: content_of(answer) for each, answer in answers.items()} == {f"r{n}": f"p{n}" for n in range(5)}
    assert await bucket.text("out/errors.jsonl") == ""
    output = done["status"]["output"]
    assert output["answers"] == bucket.url("out/output.jsonl")
    assert output["answersVersion"]
    assert output["lines"] == 5


async def test_an_output_that_names_an_object_has_its_errors_beside_it(
    brisk_workspace: Workspace, bucket: Bucket
) -> None:
    await put_prompts(brisk_workspace, ALL)
    output = {"url": bucket.url("answers.jsonl"), "credentialsSecretRef": SECRET}
    await brisk_workspace.apply(batch(model="refuse", output=output))
    await brisk_workspace.becomes(KIND, NAME, complete)
    assert await bucket.text("answers.jsonl") == ""
    errors = by_custom_id(await bucket.text("answers.errors.jsonl"))
    assert {line["response"]["status_code"] for line in errors.values()} == {422}


async def test_an_object_that_exists_is_told_before_anything_is_paid(
    brisk_workspace: Workspace, bucket: Bucket
) -> None:
    await put_prompts(brisk_workspace, ALL)
    await bucket.server.put(bucket.name, "output.jsonl", b"precious")
    await brisk_workspace.apply(batch(output={"url": bucket.url(""), "credentialsSecretRef": SECRET}))
    await brisk_workspace.becomes(KIND, NAME, failed("OutputExists"))
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    assert await bucket.text("output.jsonl") == "precious"


async def test_of_two_batches_with_one_output_the_second_is_refused_before_it_is_paid(
    brisk_private_workspace: Workspace, private_bucket: Bucket
) -> None:
    workspace, control = brisk_private_workspace, brisk_private_workspace.cloud.control
    output = {"url": private_bucket.url("out/"), "credentialsSecretRef": SECRET}
    await control.clock(mode="frozen")
    await put_prompts(workspace, ALL)
    await workspace.apply(batch("one", output=output))
    await workspace.becomes(KIND, "one", tells("Running"))
    await workspace.apply(batch("two", output=output))
    await workspace.becomes(KIND, "two", failed("OutputExists"))
    await control.clock(mode="real")
    await workspace.becomes(KIND, "one", complete)
    assert await count(workspace, CREATE_BATCH) == 1
    assert len(by_custom_id(await private_bucket.text("out/output.jsonl"))) == len(ALL)
    await workspace.kube.delete(KIND, "one")
    await workspace.is_gone(KIND, "one")
    left = await private_bucket.server.keys(private_bucket.name)
    assert left == ["out/errors.jsonl", "out/output.jsonl", "out/result.json"]


async def test_a_bucket_that_is_missing_is_told_before_anything_is_paid_and_waited_for(
    brisk_workspace: Workspace, bucket: Bucket
) -> None:
    await put_prompts(brisk_workspace, ALL)
    missing = f"{bucket.name}-later"
    await brisk_workspace.apply(batch(output={"url": f"s3://{missing}/out", "credentialsSecretRef": SECRET}))
    told = await brisk_workspace.becomes(KIND, NAME, tells("OutputUnavailable"))
    assert stalled(told) == "OutputUnavailable"
    assert missing in condition(told, "Ready")["message"]
    assert await count(brisk_workspace, CREATE_BATCH) == 0
    await bucket.server.create_bucket(missing)
    await brisk_workspace.becomes(KIND, NAME, complete)


async def test_wrong_keys_are_told_and_nothing_goes_on_until_they_are_right(
    brisk_workspace: Workspace, bucket: Bucket
) -> None:
    await bucket.put_secret(AWS_SECRET_ACCESS_KEY="of-somebody-else")
    source = {"url": bucket.url("prompts.jsonl"), "credentialsSecretRef": SECRET}
    await brisk_workspace.apply(batch(input=source))
    told = await brisk_workspace.becomes(KIND, NAME, tells("InputUnavailable"))
    assert stalled(told) == "InputUnavailable"
    assert "of-somebody-else" not in str(told["status"])
    await bucket.put_secret()
    await brisk_workspace.becomes(KIND, NAME, tells("InputMissing"))
    await bucket.server.put(bucket.name, "prompts.jsonl", jsonl(ALL).encode())
    await brisk_workspace.becomes(KIND, NAME, complete)


async def test_a_secret_that_lacks_a_key_is_told_by_the_keys_name(brisk_workspace: Workspace, bucket: Bucket) -> None:
    await bucket.put_secret(AWS_ACCESS_KEY_ID="")
    source = {"url": bucket.url("prompts.jsonl"), "credentialsSecretRef": SECRET}
    await brisk_workspace.apply(batch(input=source))
    told = await brisk_workspace.becomes(KIND, NAME, tells("CredentialsInvalid"))
    assert "AWS_ACCESS_KEY_ID" in condition(told, "Ready")["message"]


async def test_paid_answers_that_cannot_be_written_stay_in_the_cloud_until_they_can(
    brisk_private_workspace: Workspace, private_bucket: Bucket
) -> None:
    workspace, bucket, control = brisk_private_workspace, private_bucket, brisk_private_workspace.cloud.control
    model = {"customId": "slow", "body": {"messages": [{"role": "user", "content": "kept"}]}}
    output = {"url": bucket.url("out"), "credentialsSecretRef": SECRET}
    await control.clock(mode="frozen")
    await workspace.apply(batch(input={"inline": [model] * 1}, output=output))
    await workspace.becomes(KIND, NAME, tells("Running"))
    await bucket.put_secret(AWS_SECRET_ACCESS_KEY="revoked")
    await control.clock(mode="real")
    told = await workspace.becomes(KIND, NAME, tells("OutputUnavailable"))
    (part,) = told["status"]["parts"]
    assert stalled(told) == "OutputUnavailable"
    assert part["outputFileId"] in condition(told, "Ready")["message"]
    assert part["outputFileId"] in {each["id"] for each in await files_in_cloud(workspace)}
    await bucket.put_secret()
    await workspace.becomes(KIND, NAME, complete)
    assert "kept" in await bucket.text("out/output.jsonl")
    assert await files_in_cloud(workspace) == []
