"""Records for batches, and how a test walks a batch through its life on the cloud's clock."""

import json
from collections.abc import AsyncIterator, Iterator

from relay_client import Cloud
from relay_client.operations import CREATE_BATCH, GET_BATCH
from relay_wire.batches import FINAL, Batch, BatchCreate
from tests.support.localcloud import Control

ENDPOINT = "/v1/chat/completions"


def record(number: int, text: str = "", model: str = "echo") -> bytes:
    """One line of input."""
    body = {"model": model, "messages": [{"role": "user", "content": text or f"question {number}"}]}
    line = {"custom_id": f"r{number}", "method": "POST", "url": ENDPOINT, "body": body}
    return json.dumps(line).encode() + b"\n"


async def records(count: int, text: str = "") -> AsyncIterator[bytes]:
    """A file of that many records, one a chunk."""
    for number in range(count):
        yield record(number, text)


async def created(cloud: Cloud, count: int, **metadata: str) -> Batch:
    """A batch of that many records, uploaded as a file."""
    file = await cloud.upload("input.jsonl", records(count))
    return await cloud.call(CREATE_BATCH, BatchCreate(input_file_id=file.id, endpoint=ENDPOINT, metadata=metadata))


async def ended(cloud: Cloud, control: Control, batch: Batch) -> Batch:
    """The batch when nothing changes it any more."""
    for _ in range(20):
        batch = await cloud.call(GET_BATCH, id=batch.id)
        if batch.status in FINAL:
            return batch
        await control.advance(60)
    raise AssertionError(f"{batch} does not end")


async def downloaded(cloud: Cloud, file_id: str | None) -> bytes:
    """The whole of a file."""
    assert file_id is not None
    async with cloud.download(file_id) as pieces:
        return b"".join([piece async for piece in pieces])


def lines(content: bytes) -> Iterator[dict[str, object]]:
    """The objects of a JSONL file."""
    return (json.loads(line) for line in content.splitlines())
