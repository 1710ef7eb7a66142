"""The servers behind a fault proxy."""

from __future__ import annotations

import base64
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import aiohttp
import yaml
from multidict import CIMultiDict
from yarl import URL

from tests.support.faultrules import Side

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from aiohttp import web

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host"})


@dataclass(frozen=True)
class Reply:
    """A complete answer; the body as on the wire, perhaps compressed."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


class UpstreamLost(Exception):
    """The server could not be reached, or closed the connection before its answer was complete."""


class Upstream:
    """Passes requests on, each over a new connection, so that a stale connection never looks like a fault.

    Connections to the API server are reused: it keeps idle ones longer than this client does, and TLS handshakes are
    most of their cost.

    `token` and `namespace` come from the kubeconfig, which must have a token and at most one CA; `urls` are those of
    the other servers.
    """

    def __init__(self, kubeconfig: Path, urls: Mapping[Side, str]) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = next(one["context"] for one in config["contexts"] if one["name"] == config["current-context"])
        cluster = next(one["cluster"] for one in config["clusters"] if one["name"] == context["cluster"])
        user = next(one["user"] for one in config["users"] if one["name"] == context["user"])
        self.token: str = user["token"]
        self.namespace: str = context.get("namespace", "default")
        self._urls = {Side.KUBE: cluster["server"], **urls}
        self._tls = ssl.create_default_context(
            cafile=cluster.get("certificate-authority"),
            cadata=base64.b64decode(cluster.get("certificate-authority-data", "")).decode() or None,
        )
        self._sessions: dict[Side, aiohttp.ClientSession] = {}
        self._ends = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        kept = await self._ends.enter_async_context(self._session(force_close=False))
        single = await self._ends.enter_async_context(self._session(force_close=True))
        self._sessions = {side: kept if side is Side.KUBE else single for side in self._urls}
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._ends.aclose()

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, force_close=force_close, limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=5),
            auto_decompress=False,
            read_bufsize=2**21,
        )

    async def exchange(self, side: Side, request: web.BaseRequest, raw: bytes) -> Reply:
        """Returns the server's complete answer; raises UpstreamLost."""
        try:
            answer = await self._send(side, request, raw)
            async with answer:
                return Reply(answer.status, passed_on(answer.headers), await answer.read())
        except (aiohttp.ClientError, TimeoutError) as lost:
            raise UpstreamLost from lost

    @contextlib.asynccontextmanager
    async def stream(self, request: web.BaseRequest) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the API server's answer while it streams; raises UpstreamLost if none begins."""
        try:
            answer = await self._send(Side.KUBE, request, b"")
        except (aiohttp.ClientError, TimeoutError) as lost:
            raise UpstreamLost from lost
        try:
            yield answer
        finally:
            answer.close()

    async def _send(self, side: Side, request: web.BaseRequest, raw: bytes) -> aiohttp.ClientResponse:
        if not self._sessions:
            raise RuntimeError("Upstream is used outside `async with`")
        headers = passed_on(request.headers)
        if side is Side.STORE:
            headers["Host"] = request.headers["Host"]  # part of the signature
        return await self._sessions[side].request(
            request.method,
            URL(self._urls[side] + request.path_qs, encoded=True),
            headers=headers,
            data=raw or None,
            allow_redirects=False,
        )


def passed_on(headers: Mapping[str, str]) -> CIMultiDict[str]:
    """Returns the headers without those that concern one connection only (hop-by-hop)."""
    return CIMultiDict([(name, value) for name, value in headers.items() if name.lower() not in _HOP_BY_HOP])
