"""Files and batches by raw HTTP, and the records that go in."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.inference import CHAT, call, chat, ok

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.localcloud.support.server import Answer, Organization

BOUNDARY = "a-boundary-of-the-tests"


def record(custom_id: str, content: str = "hello there", model: str = "echo", **body: Any) -> dict[str, Any]:
    """A chat record; more fields go into its body."""
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": chat(content, model, **body)}


def jsonl(records: Sequence[object]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def multipart(content: bytes, purpose: str | None = "batch", filename: str = "input.jsonl") -> bytes:
    """The body of an upload, byte by byte as a browser would send it."""
    parts = []
    if purpose is not None:
        parts.append(f'Content-Disposition: form-data; name="purpose"\r\n\r\n{purpose}'.encode())
    head = (
        f'Content-Disposition: form-data; name="file"; filename="{filename}"\r\nContent-Type: application/jsonl\r\n\r\n'
    )
    parts.append(head.encode() + content)
    return b"".join(b"--" + BOUNDARY.encode() + b"\r\n" + part + b"\r\n" for part in parts) + (
        b"--" + BOUNDARY.encode() + b"--\r\n"
    )


async def post_file(organization: Organization, body: bytes, boundary: str = BOUNDARY) -> Answer:
    headers = {
        "Authorization": f"Bearer {organization.api_key}",
        "Content-Type": f"multipart/form-data; boundary={boundary}",
    }
    return await call(organization, "POST", "/v1/files", raw=body, headers=headers)


async def upload(organization: Organization, content: bytes) -> str:
    """The id of a file with this content."""
    answer = await post_file(organization, multipart(content))
    assert answer.status == 200, answer.raw
    return str(answer.body["id"])


async def create(organization: Organization, records: Sequence[object], endpoint: str = CHAT, **more: Any) -> Any:
    """A batch of these records."""
    file_id = await upload(organization, jsonl(records))
    return await ok(organization, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": endpoint, **more})


async def batch_of(organization: Organization, batch_id: str) -> Any:
    return await ok(organization, "GET", f"/v1/batches/{batch_id}")


async def run(organization: Organization, records: Sequence[object], endpoint: str = CHAT, **more: Any) -> Any:
    """A batch of these records, after an hour."""
    created = await create(organization, records, endpoint, **more)
    await organization.server.advance(3600)
    return await batch_of(organization, created["id"])


async def content(organization: Organization, file_id: str) -> bytes:
    answer = await call(organization, "GET", f"/v1/files/{file_id}/content")
    assert answer.status == 200, answer.raw
    return answer.raw


async def lines(organization: Organization, batch: Any, name: str = "output_file_id") -> list[Any]:
    """The lines of a batch's output or error file; none where it has none."""
    if name not in batch:
        return []
    raw = await content(organization, batch[name])
    assert raw.endswith(b"\n")
    return [json.loads(line) for line in raw.splitlines()]


async def errors(organization: Organization, batch: Any) -> list[Any]:
    return await lines(organization, batch, "error_file_id")


async def failure(organization: Organization, broken: object) -> tuple[Any, Any]:
    """Response and error of the one record of a batch that fails."""
    batch = await run(organization, [broken])
    assert batch["status"] == "completed", batch
    assert batch["request_counts"] == {"total": 1, "completed": 0, "failed": 1}
    assert "output_file_id" not in batch
    (line,) = await errors(organization, batch)
    return line["response"], line["error"]
