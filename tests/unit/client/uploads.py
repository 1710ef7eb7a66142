"""Files to upload, and a Cloud that uploads them to a scripted server."""

import json
from collections.abc import AsyncIterator

import pytest

from relay_client import CallPolicy, Cloud, CloudError, RateLimiter
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Reply, ScriptedServer

STORED = Reply(200, b'{"id":"file_1","object":"file","bytes":6,"filename":"a.jsonl","purpose":"batch"}')
MIB = 1024 * 1024
PATIENT = CallPolicy(idle_seconds=5, total_seconds=5)
IMPATIENT = CallPolicy(idle_seconds=0.3, total_seconds=0.3)


class Source:
    """`count` chunks of `size` bytes; `taken` says how many were asked for."""

    def __init__(self, count: int, size: int = MIB) -> None:
        self._count = count
        self._chunk = b"x" * size
        self.taken = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.taken == self._count:
            raise StopAsyncIteration
        self.taken += 1
        return self._chunk


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def inference(server: ScriptedServer, policy: CallPolicy = PATIENT, limiter: RateLimiter | None = None) -> Cloud:
    return Cloud("http://management.invalid", KEY, inference_url=server.url, policy=policy, limiter=limiter)


async def failed_upload(cloud: Cloud, source: AsyncIterator[bytes]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await cloud.upload("a.jsonl", source)
    return caught.value


def refusal(status: int, kind: str, code: str | None = None, **headers: str) -> Reply:
    body = json.dumps({"error": {"message": "no", "type": kind, "code": code}}).encode()
    return Reply(status, body, headers={name.replace("_", "-"): value for name, value in headers.items()})
