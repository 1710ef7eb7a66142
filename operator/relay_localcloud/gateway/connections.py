"""HTTP/1.1 at the gateway's port, as aiohttp serves it: it streams both ways and speaks WebSocket."""

import asyncio

from aiohttp import web

from relay_localcloud.gateway.answers import refusal
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.handler import Handler
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.under_way import UnderWay

_KEEP_ALIVE_SECONDS = 75.0
_LINE_BYTES = 65_536


class _Connection(web.RequestHandler):
    """One client; what is no HTTP is answered as every other error, and a defect here is a 500 with its traceback."""

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The gateway's own error; ConnectionError where an answer has begun already."""
        if status >= 500:
            self.log_exception("The gateway failed at a request", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        said = "The gateway failed at this; its log on stderr has the traceback."
        response = refusal(ApiError(status, said if status >= 500 else "This is not HTTP/1.1 as its grammar has it."))
        response.force_close()
        return response


class Connections:
    """Everything that is open at the gateway's port."""

    def __init__(self, directory: Directory, under_way: UnderWay) -> None:
        self._handler = Handler(directory, under_way)
        self._server = web.Server(self._handler, handler_cancellation=True)
        self._loop = asyncio.get_running_loop()

    def open(self) -> asyncio.Protocol:
        """What speaks with the next client."""
        return _Connection(
            self._server,
            loop=self._loop,
            access_log=None,  # type: ignore[arg-type] # documented to turn it off
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            max_line_size=_LINE_BYTES,
            max_field_size=_LINE_BYTES,
        )

    async def close(self, within: float) -> None:
        """Close what is idle at once, the rest after that many seconds."""
        self._server.pre_shutdown()
        await self._server.shutdown(within)
        await self._handler.close()
