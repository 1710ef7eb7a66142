"""An input whose server never stops sending ends its transfer all the same, whatever its lines are."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_operator.api.conditions import Reason
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.result import StoppedError, WorkRefused
from relay_operator.flows.batch.sources import Sources
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.flows.batch.acting import INTENT, acting
from tests.unit.flows.batch.examples import batch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

NOBODY = cast("Any", None)
LIMIT = 1024 * 1024


@contextlib.asynccontextmanager
async def _endless(line: bytes) -> AsyncIterator[str]:
    """The URL of a server that sends this line again and again."""
    chunk = line * (16384 // len(line))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while True:
                writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
                await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/in.jsonl"


@pytest.mark.parametrize("line", [b"\n", b"x\n", b"x"], ids=["blank lines", "bad lines", "one long line"])
async def test_an_input_without_an_end_is_refused(tmp_path: Path, line: bytes) -> None:
    policy = StorePolicy((PurePosixPath(tmp_path),), (ip_network("127.0.0.0/8"),))
    async with ObjectStores(policy) as stores, _endless(line) as url:
        sending = acting(stores, Cache()).sending
        sending.sources = replace(sending.sources, most_bytes=LIMIT)
        obj = batch(output={"url": f"file://{tmp_path}"}, input={"url": url})
        with pytest.raises(StoppedError) as stopped:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await sending.first(obj, NOBODY, INTENT, search=False)
    assert isinstance(stopped.value.came, WorkRefused)
    assert stopped.value.came.reason is Reason.INPUT_INVALID
    assert f"more than {LIMIT} bytes" in stopped.value.came.message


async def test_an_input_may_be_as_long_as_the_limit() -> None:
    obj = batch(input={"inline": [{"customId": "a", "body": {}}]})
    line = b'{"custom_id":"a","body":{}}\n'
    async with Sources(NOBODY, NOBODY, most_bytes=len(line)).open(obj, NOBODY) as chunks:
        assert b"".join([chunk async for chunk in chunks]) == line
    async with Sources(NOBODY, NOBODY, most_bytes=len(line) - 1).open(obj, NOBODY) as chunks:
        with pytest.raises(StoppedError):
            await anext(aiter(chunks))
