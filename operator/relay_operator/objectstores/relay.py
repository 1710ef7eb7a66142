"""Passes bytes between two connections, both ways, until both have ended or neither has said anything for too long."""

import asyncio
from typing import TypeAlias

Ends: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_PIECE = 65_536


class _Activity:
    """When something was last passed on, in the event loop's seconds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.touch()

    def touch(self) -> None:
        self._latest = self._loop.time()

    async def until_idle(self, seconds: float) -> None:
        while (left := self._latest + seconds - self._loop.time()) > 0:  # noqa: ASYNC110  wakes once an idle time, not once a piece
            await asyncio.sleep(left)


async def relay(client: Ends, server: Ends, idle_seconds: float) -> None:
    """Returns when it is over; each direction holds at most the streams' own buffers."""
    activity = _Activity()
    passing = asyncio.create_task(_both_ways(client, server, activity))
    idle = asyncio.create_task(activity.until_idle(idle_seconds))
    try:
        await asyncio.wait({passing, idle}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        passing.cancel()
        idle.cancel()
        await asyncio.gather(passing, idle, return_exceptions=True)


async def _both_ways(client: Ends, server: Ends, activity: _Activity) -> None:
    async with asyncio.TaskGroup() as ways:
        ways.create_task(_pump(client[0], server[1], activity))
        ways.create_task(_pump(server[0], client[1], activity))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, activity: _Activity) -> None:
    while piece := await reader.read(_PIECE):
        activity.touch()
        writer.write(piece)
        await writer.drain()
        activity.touch()
    if writer.can_write_eof():
        writer.write_eof()
