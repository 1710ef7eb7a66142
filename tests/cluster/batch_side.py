"""InferenceBatches as scenarios write and read them, and their batches and files as the cloud's customer sees them."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.cluster.cloud_log import count
from tests.support.eventually import eventually
from tests.support.manifests import condition, relay_object, tells, up_to_date

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

KIND, NAME = "InferenceBatch", "nightly"
ENDPOINT = "/v1/chat/completions"
CREATE_BATCH = "POST /v1/batches"
CANCEL_BATCH = "POST /v1/batches/{id}/cancel"
UPLOAD = "POST /v1/files"
DELETE_FILE = "DELETE /v1/files/{id}"
Json = dict[str, Any]


def record(custom_id: str, text: str = "hello", **body: object) -> Json:
    """One line of an input; `body.model`, `method` and `url` are left to the operator."""
    return {"custom_id": custom_id, "body": {"messages": [{"role": "user", "content": text}], **body}}


def jsonl(records: Sequence[Json]) -> str:
    """Records as a file has them."""
    return "".join(json.dumps(each) + "\n" for each in records)


def batch(name: str = NAME, /, **spec: Any) -> Manifest:
    """The batch of the interfaces page, from the ConfigMap `prompts` to the ConfigMap `answers`."""
    fields: Json = {
        "model": "echo",
        "endpoint": ENDPOINT,
        "input": {"configMapRef": {"name": "prompts", "key": "input.jsonl"}},
        "output": {"configMapRef": {"name": "answers"}},
    }
    return relay_object(KIND, name, **(fields | spec))


async def put_prompts(workspace: Workspace, records: Sequence[Json] | str) -> None:
    """The ConfigMap `prompts`, with records or with the text given."""
    text = records if isinstance(records, str) else jsonl(records)
    metadata = {"name": "prompts"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"input.jsonl": text}}
    await workspace.apply(manifest)


async def runs_slowly(workspace: Workspace, records: Sequence[Json], *, record_seconds: int = 100, **spec: Any) -> None:
    """The batch runs, and each of its records takes so many seconds of a clock that stands still."""
    await workspace.cloud.control.clock(mode="frozen")
    await workspace.cloud.control.settings(batchRecordSeconds=record_seconds)
    await put_prompts(workspace, records)
    await workspace.apply(batch(**spec))
    await workspace.becomes(KIND, NAME, tells("Running"))


async def published(workspace: Workspace, name: str = "answers") -> tuple[dict[str, Json], dict[str, Json]]:
    """Answers and errors of an output ConfigMap by custom_id; raises AssertionError where one is there twice."""
    data = (await workspace.kube.get("ConfigMap", name))["data"]
    answers, errors = by_custom_id(data["output.jsonl"]), by_custom_id(data["errors.jsonl"])
    assert not answers.keys() & errors.keys()
    return answers, errors


def by_custom_id(text: str) -> dict[str, Json]:
    """The lines of a file of results."""
    lines = [json.loads(line) for line in text.splitlines()]
    found = {line["custom_id"]: line for line in lines}
    assert len(found) == len(lines)
    return found


def content_of(answer: Json) -> str:
    """What the model said."""
    text: str = answer["response"]["body"]["choices"][0]["message"]["content"]
    return text


def complete(item: Manifest | None) -> bool:
    """Finished, published, and nothing left to do."""
    return condition(item, "Complete").get("status") == "True" and up_to_date(item) and at_rest(item)


def failed(reason: str) -> Callable[[Manifest | None], bool]:
    """Finished without being complete, for this reason."""

    def is_failed(item: Manifest | None) -> bool:
        found = condition(item, "Failed")
        return found.get("status") == "True" and found["reason"] == reason and at_rest(item)

    return is_failed


def at_rest(item: Manifest | None) -> bool:
    """Nothing of it is left to be done in the cloud."""
    return ((item or {}).get("status") or {}).get("cleared") is True


async def inference(workspace: Workspace, method: str, path: str, body: Json | None = None) -> Any:
    """One call of the inference API with the organization's key."""
    headers = {"Authorization": f"Bearer {workspace.organization.api_key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.request(method, workspace.cloud.inference_url + path, json=body) as reply,
    ):
        assert reply.status < 400, await reply.text()
        return await reply.json()


async def is_cancelled(workspace: Workspace) -> None:
    """The operator has asked the cloud to cancel a batch: until then, a clock that goes on could complete it."""
    await eventually(lambda: count(workspace, CANCEL_BATCH), what="the cancellation")


@asynccontextmanager
async def unreadable(workspace: Workspace) -> AsyncIterator[None]:
    """Meanwhile the cloud refuses reads of batches, which the operator has noticed, and answers everything else."""
    control, organization = workspace.cloud.control, workspace.organization.id
    reads = ("GET /v1/batches/{id}", "GET /v1/batches")
    faults = [await control.fault(read, {"status": 503}, organizationId=organization) for read in reads]

    async def is_noticed() -> bool:
        return any([await control.was_met(fault) for fault in faults])

    try:
        await eventually(is_noticed, what="a look that fails")
        yield
    finally:
        for fault in faults:
            await control.end_fault(fault)


async def batches_in_cloud(workspace: Workspace) -> list[Json]:
    """The organization's batches, newest first."""
    found: list[Json] = (await inference(workspace, "GET", "/v1/batches?limit=100"))["data"]
    return found


async def files_in_cloud(workspace: Workspace) -> list[Json]:
    """The organization's files, newest first."""
    found: list[Json] = (await inference(workspace, "GET", "/v1/files?limit=100"))["data"]
    return found
