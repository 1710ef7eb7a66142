"""A request that failed at a model's server is gone with its answer: garbage may wait, and it may have 10 MiB."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, cast

import pytest
from starlette.requests import Request

from relay_localcloud.egress.reach import Reach
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.inference.routes import _unless_left
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.kernel.vault import KEY_BYTES, Vault
from relay_localcloud.models.backends import Server
from relay_wire.inference import Family

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import Message


class Large(bytearray):
    """What a request needs, and what is sent."""


@pytest.fixture
def nothing_is_collected() -> Iterator[None]:
    """Only what nothing refers to is gone."""
    gc.disable()
    yield
    gc.enable()


async def never() -> Message:
    return await asyncio.Future()


async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def fail(port: int, asked: Large, sent: Large, *, stream: bool) -> int:
    """Ask a server at this port, which does not answer, for somebody who waits for it; the status."""
    server = Server("srv_1", "m", f"http://127.0.0.1:{port}/v1", frozenset(), "none", 1, 0)

    async def asking(_: Large) -> object:
        ask = upstreams.stream if stream else upstreams.ask
        return await ask(server, Family.CHAT_COMPLETIONS, cast("bytes", sent))

    async with Upstreams(lambda: 0.0, Vault(bytes(KEY_BYTES)), Reach.everywhere()) as upstreams:
        try:
            await _unless_left(Request({"type": "http"}, never), asking(asked))
        except InferenceError as error:  # pytest.raises would keep it
            return error.status
    return 200


@pytest.mark.usefixtures("nothing_is_collected")
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("listens", [False, True])
async def test_what_a_failed_request_needed_is_gone_with_it(listens: bool, stream: bool) -> None:
    listener = await asyncio.start_server(hang_up, "127.0.0.1")
    port = listener.sockets[0].getsockname()[1]
    if not listens:
        listener.close()
        await listener.wait_closed()
    asked, sent = Large(b"{}"), Large(b"{}")
    gone = [weakref.ref(each) for each in (asked, sent)]
    assert await fail(port, asked, sent, stream=stream) == 502
    del asked, sent
    assert [each() for each in gone] == [None, None]
    listener.close()
