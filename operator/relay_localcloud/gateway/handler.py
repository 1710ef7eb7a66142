"""One request at the gateway: which workload, whether it may pass, and what answers it."""

from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from relay_localcloud.gateway.answers import refusal
from relay_localcloud.gateway.directory import Directory
from relay_localcloud.gateway.echo import echo
from relay_localcloud.gateway.endpoints import Endpoint
from relay_localcloud.gateway.forwarding import forward, open_session
from relay_localcloud.gateway.headers import to_workload
from relay_localcloud.gateway.passages import Passage, Passages, admit
from relay_localcloud.gateway.targets import IdTarget, target_of
from relay_localcloud.gateway.websockets import bridge, echo_messages, is_handshake
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.under_way import Replaced, UnderWay, replaced_error

_MOST_HOPS: Final = 32
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Handler:
    """Answers every request of the gateway's port."""

    def __init__(self, directory: Directory, under_way: UnderWay) -> None:
        self._directory = directory
        self._under_way = under_way
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
        named = target_of(request.headers.get("Host", ""), request.rel_url.raw_path_qs)
        endpoint = self._directory.endpoint(named[0]) if named is not None else None
        if named is None or endpoint is None:
            raise ApiError(404, "No workload has an endpoint at this address.")
        target, path = named
        consumed = admit(endpoint, request.headers, self._directory)
        passage = Passage(request, target)
        with self._passages.through(endpoint.workload_id, passage):
            return await self._passed(passage, endpoint, path, consumed)

    async def _passed(
        self, passage: Passage, endpoint: Endpoint, path: str, consumed: frozenset[str]
    ) -> web.StreamResponse:
        request, target = passage.request, passage.target
        if request.headers.get("X-Forwarded-For", "").count(",") >= _MOST_HOPS:
            raise ApiError(502, "The request came through here too often: the upstream of this image leads back here.")
        prefix = target.prefix if isinstance(target, IdTarget) else ""
        headers = to_workload(request.headers, consumed, request.remote, request.scheme, prefix)
        upstream = self._directory.upstream(endpoint.image)
        if is_handshake(request):
            if upstream is None:
                return await echo_messages(passage)
            return await bridge(passage, self._session, _url(upstream, path), headers)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(_CONTINUE)
        if upstream is None:
            return await echo(request, path, headers)
        return await forward(request, self._session, _url(upstream, path), headers)


def _url(upstream: str, path: str) -> URL:
    # As it was sent, character for character: what it means is the workload's affair.
    return URL(upstream.rstrip("/") + path, encoded=True)
