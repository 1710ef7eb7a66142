"""`python forward.py PID PORT HOST HOSTPORT`: forwards 127.0.0.1:PORT to HOST:HOSTPORT in PID's network namespace."""

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


async def forward(pid: int, port: int, host: str, host_port: int) -> None:
    """Serves until cancelled. Listens in the caller's network namespace, then enters that of `pid` for good.

    Raises OSError.
    """
    listening = socket.create_server(("127.0.0.1", port))
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"the network of the process {pid} cannot be entered")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(host, host_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, there[1]), _copy(there[0], writer))

    async with await asyncio.start_server(client, sock=listening) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(forward(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
