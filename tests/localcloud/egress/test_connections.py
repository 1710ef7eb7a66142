"""A server that the cloud calls cannot make it hold answers without end."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from relay_localcloud.egress.connections import MOST_UNREAD, connector_to
from relay_localcloud.egress.reach import Reach
from tests.localcloud.support.gateway import endless

AWAITED = b"HTTP/1.1 102 Processing\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone"


async def fetched(url: str) -> str:
    async with (
        aiohttp.ClientSession(connector=connector_to(Reach.everywhere(), verified=True)) as session,
        session.get(url) as answer,
    ):
        return await answer.text()


async def test_a_server_that_announces_its_answer_without_end_is_disconnected() -> None:
    async with endless() as url:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await fetched(url)


async def test_a_server_may_announce_its_answer_a_few_times() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(AWAITED * (MOST_UNREAD - 1) + ANSWER)

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        assert await fetched(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") == "done"
