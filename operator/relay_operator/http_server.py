"""An aiohttp app on an address, for as long as a block runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from relay_operator.settings import ListenAddress

_SHUTDOWN_SECONDS = 2.0


@asynccontextmanager
async def http_server(app: web.Application, listen: ListenAddress) -> AsyncIterator[ListenAddress]:
    """Serves the app until the block ends; yields the address in use. Raises OSError where it is taken."""
    # Nobody is told of single requests here: outcomes are counted where they are known.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, listen.host, listen.port).start()
        port = runner.addresses[0][1]
        yield ListenAddress(listen.host, port)
    finally:
        await runner.cleanup()
