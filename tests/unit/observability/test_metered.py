"""Every request to the cloud is told of once, whatever it carries."""

import contextlib
import time
from collections.abc import AsyncIterator
from itertools import count

import pytest

from relay_client import CallPolicy, Cloud, CloudError
from relay_client.operations import GET_VM
from relay_operator.observability.metered import MeteredPool
from tests.unit.client.scripted import Drop, Reply, scripted_server

CUT = Reply(200, b"123", announced=6)
REST = Reply(206, b"456", {"Content-Range": "bytes 3-5/6"})


async def chunks() -> AsyncIterator[bytes]:
    yield b"x"


async def test_calls_uploads_and_each_request_of_a_download_are_told() -> None:
    told: list[tuple[str, int | None, float]] = []
    ticks = count()
    pool = MeteredPool(lambda *request: told.append(request), lambda: float(next(ticks)), lambda: True, 10)
    async with scripted_server() as server, contextlib.aclosing(pool):
        server.will(Reply(200, b'{"id":"x"}'), Reply(200, b'{"id":"file_1"}'), Drop(), CUT, REST)
        cloud = Cloud(server.url, "or_test_key_0123456789", inference_url=server.url, pool=pool)
        await cloud.call(GET_VM, id="x")
        await cloud.upload("a.jsonl", chunks())
        with contextlib.suppress(CloudError):
            await cloud.upload("a.jsonl", chunks())
        async with cloud.download("file_1") as pieces:
            assert b"".join([piece async for piece in pieces]) == b"123456"
    assert told == [
        ("get_vm", 200, 1.0),
        ("upload_file", 200, 1.0),
        ("upload_file", None, 1.0),
        ("download_file", 200, 1.0),
        ("download_file", 206, 1.0),
    ]


async def test_it_has_as_many_connections_as_it_is_told() -> None:
    pool = MeteredPool(lambda *_: None, time.monotonic, lambda: True, 1)
    async with scripted_server() as server, contextlib.aclosing(pool):
        server.will(Reply(200, b"123", announced=6, drip=60), Reply(200, b'{"id":"x"}'))
        policy = CallPolicy(pool_seconds=0.1, max_attempts=1)
        cloud = Cloud(server.url, "or_test_key_0123456789", inference_url=server.url, pool=pool, policy=policy)
        async with cloud.download("file_1"):
            with pytest.raises(CloudError, match="no connection is free"):
                await cloud.call(GET_VM, id="x")
