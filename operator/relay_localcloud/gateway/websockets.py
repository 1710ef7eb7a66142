"""WebSockets through the gateway, message by message, including pings and closing codes."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import aiohttp
from aiohttp import WSMsgType, web
from multidict import CIMultiDict
from yarl import URL

from relay_localcloud.gateway.passages import Passage
from relay_localcloud.gateway.ways import tls_on, unreachable
from relay_localcloud.http.errors import ApiError
from relay_localcloud.runtimes.runtime import Way

LARGEST_MESSAGE: Final = 16 * 1024 * 1024

_OF_THE_HANDSHAKE: Final = ("Sec-WebSocket-Key", "Sec-WebSocket-Version", "Sec-WebSocket-Extensions")
_NORMAL: Final = 1000
_GOING_AWAY: Final = 1001
_UPSTREAM_LOST: Final = 1014
_FAREWELL_SECONDS: Final = 1.0
_UNSENDABLE: Final = frozenset({0, 1005, 1006, 1015})
"""Codes that stand for the absence of a code, so they are never sent (RFC 6455, section 7.4.1)."""

Socket = web.WebSocketResponse | aiohttp.ClientWebSocketResponse

_SENT: Final[Mapping[WSMsgType, Callable[[Socket, Any], Awaitable[None]]]] = {
    WSMsgType.TEXT: lambda sink, data: sink.send_str(data),
    WSMsgType.BINARY: lambda sink, data: sink.send_bytes(data),
    WSMsgType.PING: lambda sink, data: sink.ping(data),
    WSMsgType.PONG: lambda sink, data: sink.pong(data),
}
"""How to send each type of message; any other type ends the connection."""


def is_handshake(request: web.BaseRequest) -> bool:
    """Whether the request opens a WebSocket; ApiError 400 if its handshake violates RFC 6455."""
    if request.method != "GET" or request.headers.get("Upgrade", "").lower() != "websocket":
        return False
    if not web.WebSocketResponse().can_prepare(request):
        raise ApiError(400, "The handshake of this WebSocket is incomplete, or of another version than 13.")
    return True


async def echo_messages(passage: Passage) -> web.StreamResponse:
    """Answer every message with itself."""
    near = web.WebSocketResponse(max_msg_size=LARGEST_MESSAGE)
    await near.prepare(passage.request)
    passage.end = partial(_dismiss, passage, near)
    while (message := await near.receive()).type in _SENT:
        await passage.turn()
        await _SENT[message.type](near, message.data)
    return near


async def bridge(
    passage: Passage, session: aiohttp.ClientSession, way: Way, url: URL, headers: CIMultiDict[str]
) -> web.StreamResponse:
    """Connect the client with the upstream until either closes. ApiError if the upstream is unreachable or refuses."""
    offered = [
        name.strip() for name in ",".join(headers.popall("Sec-WebSocket-Protocol", [])).split(",") if name.strip()
    ]
    for name in _OF_THE_HANDSHAKE:
        headers.popall(name, None)
    try:
        far = await session.ws_connect(
            url,
            protocols=offered,
            headers=headers,
            autoping=False,
            autoclose=False,
            max_msg_size=LARGEST_MESSAGE,
            ssl=tls_on(way),
        )
    except aiohttp.WSServerHandshakeError as refused:
        status = refused.status if refused.status >= 400 else 502
        raise ApiError(status, f"The workload refused the WebSocket with {refused.status}.") from refused
    except (aiohttp.ClientError, TimeoutError, OSError) as failure:
        raise unreachable(way, failure) from failure
    async with far:
        chosen = [far.protocol] if far.protocol else []
        near = web.WebSocketResponse(protocols=chosen, autoping=False, autoclose=False, max_msg_size=LARGEST_MESSAGE)
        await near.prepare(passage.request)
        passage.end = partial(_dismiss, passage, near, far)
        both = [
            asyncio.create_task(_pass_on(passage, near, far, when_lost=_GOING_AWAY)),
            asyncio.create_task(_pass_on(passage, far, near, when_lost=_UPSTREAM_LOST)),
        ]
        try:
            await asyncio.wait(both)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            await far.close(code=_GOING_AWAY)  # does nothing if `far` is closed already
        return near


async def _dismiss(passage: Passage, *sockets: Socket) -> None:
    """Close the sockets, wait briefly for their answers, and break the client's connection."""
    with suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await asyncio.gather(*(socket.close(code=_GOING_AWAY) for socket in sockets))
    await passage.abort()


async def _pass_on(passage: Passage, source: Socket, sink: Socket, when_lost: int) -> None:
    """Relay every message of one side, then its close code, or `when_lost` if it sent none.

    A side that closes is answered only once the other has closed too, as if they were connected directly.
    """
    while (message := await source.receive()).type in _SENT:
        await passage.turn()
        await _SENT[message.type](sink, message.data)
    if message.type is WSMsgType.CLOSING:  # by the other direction
        return
    if message.type is WSMsgType.CLOSE:
        code = _NORMAL if message.data in _UNSENDABLE else message.data
        await sink.close(code=code, message=(message.extra or "").encode())
        await source.close(code=code)
    elif isinstance(message.data, aiohttp.WebSocketError):
        await sink.close(code=message.data.code)
    else:
        await sink.close(code=when_lost)
