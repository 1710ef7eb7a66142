"""`python forward.py PID HOST PORT PID HOST PORT`: forwards the first address to the second.

Each is an address in the network namespace of its process.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys

_CLONE_NEWNET = 0x40000000


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def _enter_network_of(pid: int) -> None:
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    entered = ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET)
    os.close(namespace)
    if entered:
        raise OSError(ctypes.get_errno(), f"the network of the process {pid} cannot be entered")


async def forward(near_pid: int, near: tuple[str, int], far_pid: int, far: tuple[str, int]) -> None:
    """Listens at `near` in the network of one process, and connects to `far` in that of another, until cancelled.

    Leaves the caller in the network of `far_pid`. Raises OSError.
    """
    _enter_network_of(near_pid)
    listening = socket.create_server(near)
    _enter_network_of(far_pid)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(*far)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    async with await asyncio.start_server(client, sock=listening) as server:
        await server.serve_forever()


if __name__ == "__main__":
    pids, hosts, ports = (sys.argv[first::3] for first in (1, 2, 3))
    near, far = zip(hosts, map(int, ports), strict=True)
    asyncio.run(forward(int(pids[0]), near, int(pids[1]), far))
