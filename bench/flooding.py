"""`python -m bench.flooding URL CONNECTIONS < REQUEST`: repeats a request until killed, over so many connections.

It runs as a separate process with low priority, so that the delay it causes is the server's, not that of the CPU.
"""

import asyncio
import contextlib
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

from bench.wire import Connection


@contextlib.asynccontextmanager
async def flooding(url: str, sent: bytes, connections: int) -> AsyncIterator[None]:
    """Floods a URL with a request while the block runs; raises AssertionError if the flood ends early."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.flooding", url, str(connections), stdin=PIPE, cwd=Path(__file__).parents[1]
    )
    assert process.stdin is not None
    process.stdin.write(sent)
    process.stdin.close()
    try:
        yield
        assert process.returncode is None, "the flood ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _flood(url: str, sent: bytes, connections: int) -> None:
    async def one() -> None:
        while True:
            with contextlib.suppress(ConnectionError, TimeoutError):
                connection = await Connection.open(url)
                while True:
                    await connection.ask(sent)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one() for _ in range(connections)))


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(_flood(sys.argv[1], sys.stdin.buffer.read(), int(sys.argv[2])))
