"""Passes bytes between two connections, both ways, until both have ended or neither has said anything for too long."""

import asyncio
import contextlib
from typing import TypeAlias

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 65_536


async def relay(client: Ends, server: Ends, idle_seconds: float) -> None:
    """Returns when it is over; each direction holds at most the streams' own buffers."""
    clock = asyncio.get_running_loop().time

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(_PIECE):
            idle.reschedule(clock() + idle_seconds)
            writer.write(piece)
            await writer.drain()
            idle.reschedule(clock() + idle_seconds)
        if writer.can_write_eof():
            writer.write_eof()

    with contextlib.suppress(TimeoutError, ExceptionGroup):
        async with asyncio.timeout(idle_seconds) as idle, asyncio.TaskGroup() as ways:
            ways.create_task(pump(client[0], server[1]))
            ways.create_task(pump(server[0], client[1]))
