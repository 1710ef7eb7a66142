"""HTTP/1.1 at the gateway's port, served by aiohttp: it streams both ways and supports WebSocket.

For each request, it finds the workload, decides whether the request may pass, and what answers it.
"""

import asyncio
from functools import partial
from http import HTTPStatus
from typing import Any, Final, cast

import aiohttp
from aiohttp import web

from relay_localcloud.gateway import passages
from relay_localcloud.gateway.answers import refusal
from relay_localcloud.gateway.confinement import require_confined
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.echo import echo
from relay_localcloud.gateway.endpoints import Endpoint, Names, Target
from relay_localcloud.gateway.forwarding import forward, open_session
from relay_localcloud.gateway.headers import to_workload
from relay_localcloud.gateway.passages import Passage, Passages
from relay_localcloud.gateway.ways import headers_on, url_on
from relay_localcloud.gateway.websockets import bridge, echo_messages, is_handshake
from relay_localcloud.http.connections import (
    HEAD_SECONDS,
    LARGEST_HEAD,
    MALFORMED,
    MOST_HEADERS,
    TOO_LARGE,
    TOO_LATE,
    last_answer,
)
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.taking import Taking
from relay_localcloud.http.turns import REFUSED, Turns
from relay_localcloud.http.under_way import Replaced, UnderWay, replaced_error
from relay_localcloud.http.visitors import Visitors

_KEEP_ALIVE_SECONDS: Final = 75.0
_MOST_HOPS: Final = 32
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class _Handler:
    """Answers every request of the gateway's port."""

    def __init__(self, directory: Directory, names: Names, under_way: UnderWay, turns: Turns) -> None:
        self._directory = directory
        self._names = names
        self._under_way = under_way
        self._turns = turns
        self._passages = Passages(directory)
        self._session: aiohttp.ClientSession = open_session()

    async def close(self) -> None:
        """Close the connections to upstreams."""
        await self._session.close()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """The workload's answer, or the gateway's own `{error, code}`."""
        try:
            return await self._under_way.answer(self._answer(request))
        except ApiError as error:
            return refusal(error)
        except Replaced:
            if request.writer.output_size > 0 and request.transport is not None:
                request.transport.abort()
            return refusal(replaced_error())

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        named = self._names.target(request.headers.get("Host", ""), request.rel_url.raw_path_qs)
        if named is None:
            raise self._no_endpoint()
        target, path = named
        await self._turns.of(self._lane_of(self._endpoint(target), request))
        endpoint = self._endpoint(target)  # as it is after the wait
        consumed = passages.admit(endpoint, request.headers, self._directory)
        passage = Passage(request, target, endpoint.organization_id, partial(self._turns.of, _lane(endpoint)))
        with self._passages.through(endpoint.workload_id, passage):
            return await self._passed(passage, endpoint, path, consumed)

    def _endpoint(self, target: Target) -> Endpoint:
        """The endpoint of a live workload. ApiError 404 if there is none."""
        endpoint = self._directory.endpoint(target)
        if endpoint is None:
            raise self._no_endpoint()
        return endpoint

    def _no_endpoint(self) -> ApiError:
        hosts = f"<label>.{self._names.domain}"
        return ApiError(404, f"No workload has an endpoint at this address; their hosts are {hosts}.")

    def _lane_of(self, endpoint: Endpoint, request: web.BaseRequest) -> str:
        """The lane in which a request waits; those that may be refused have one of their own."""
        is_known = endpoint.public or passages.is_known(endpoint, request.headers, self._directory)
        return _lane(endpoint) if is_known else REFUSED

    async def _passed(
        self, passage: Passage, endpoint: Endpoint, path: str, consumed: frozenset[str]
    ) -> web.StreamResponse:
        request, prefix = passage.request, passage.prefix
        if request.headers.get("X-Forwarded-For", "").count(",") >= _MOST_HOPS:
            raise ApiError(502, "The request came through here too often: the upstream of this image leads back here.")
        require_confined(request, prefix)
        headers = to_workload(request.headers, consumed, request.remote, request.scheme, prefix)
        way = passage.way = self._directory.way(endpoint)
        if is_handshake(request):
            if way is None:
                return await echo_messages(passage)
            return await bridge(passage, self._session, way, url_on(way, path), headers_on(way, headers))
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(_CONTINUE)
        if way is None:
            return await echo(passage, path, headers)
        return await forward(passage, self._session, way, url_on(way, path), headers_on(way, headers))


def _lane(endpoint: Endpoint) -> str:
    """The lane of a request: that of the workload's organization; requests to public endpoints have a second one."""
    return f"visitors of {endpoint.organization_id}" if endpoint.public else endpoint.organization_id


class _Connection(web.RequestHandler):
    """One client; an invalid request is answered like any other error, and a defect here is a 500 with its traceback.

    The bounds of heads are those of `http/connections.py`; a connection beyond its address's limit is closed at once.
    Of a head that begins in the packet of the request before it nothing is known until more of it comes: if nothing
    does, its connection ends as an idle one.
    """

    _visitor: str | None = None
    _deadline: asyncio.TimerHandle | None = None
    _body: aiohttp.StreamReader = aiohttp.EMPTY_PAYLOAD  # of the last request
    _head_bytes = 0

    def __init__(self, visitors: Visitors, server: web.Server, **more: Any) -> None:  # noqa: ANN401 - aiohttp's own
        super().__init__(server, **more)
        self._visitors = visitors
        self._taking = Taking(lambda: visitors.stalled_seconds)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head, or close the connection."""
        super().connection_made(transport)
        self._visitor = self._visitors.come(transport)
        if self._visitor is None:
            cast(asyncio.Transport, transport).abort()
        else:
            self._await_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop counting the connection."""
        if self._visitor is not None:
            self._visitors.go(self._visitor)
        self._stop_waiting()
        self._taking.end()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start to limit how long the client may read nothing: the transport's buffer is full."""
        super().pause_writing()
        if self.transport is not None:
            self._taking.begin(self.transport)

    def resume_writing(self) -> None:
        """Stop limiting: the client has read most of the buffer."""
        super().resume_writing()
        self._taking.end()

    def data_received(self, data: bytes) -> None:
        """Read a head, which is bounded in bytes and time, or what follows it."""
        is_head = self._body.is_eof() and not self._upgraded
        requests = self._request_count
        super().data_received(data)
        if self._request_count > requests:
            self._body = self._messages[-1][1]
            self._head_bytes = 0
            self._stop_waiting()
        elif is_head:
            self._head_bytes += len(data)
            if self._head_bytes > LARGEST_HEAD:
                self._refuse(*TOO_LARGE)
            elif self._deadline is None:
                self._await_head()

    @property
    def _is_answered(self) -> bool:
        """Whether every request so far has its whole answer."""
        return self._waiter is not None

    def _await_head(self) -> None:
        self._deadline = self._loop.call_later(HEAD_SECONDS, self._is_late)

    def _is_late(self) -> None:
        if self._is_answered:
            self._refuse(*TOO_LATE)
        else:
            self._await_head()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        if self._head_bytes and self._is_answered and self.transport is not None:
            self.transport.write(last_answer(status, message))
        self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """The gateway's own error. Raises ConnectionError if an answer has begun already."""
        if status >= 500:
            self.log_exception("The gateway failed at a request", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun")
        said = "The gateway failed at this; its log on stderr has the traceback."
        response = refusal(ApiError(status, said if status >= 500 else MALFORMED[1]))
        response.force_close()
        return response


class Connections:
    """The open connections of the gateway's port."""

    def __init__(self, directory: Directory, names: Names, under_way: UnderWay, turns: Turns) -> None:
        self._handler = _Handler(directory, names, under_way, turns)
        self._server = web.Server(self._handler, handler_cancellation=True)
        self._loop = asyncio.get_running_loop()

    def open(self, visitors: Visitors) -> asyncio.Protocol:
        """The protocol for the next client."""
        return _Connection(
            visitors,
            self._server,
            loop=self._loop,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            max_headers=MOST_HEADERS,
            max_line_size=LARGEST_HEAD,
            max_field_size=LARGEST_HEAD,
        )

    async def close(self, within: float) -> None:
        """Close idle connections at once, the others after `within` seconds."""
        self._server.pre_shutdown()
        await self._server.shutdown(within)
        await self._handler.close()
