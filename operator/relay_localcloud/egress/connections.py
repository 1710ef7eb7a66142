"""Connections to allowed addresses only, and to servers that may be hostile. Imports aiohttp: loaded when needed."""

import asyncio
import socket
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, cast

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import AddrInfoType
from aiohttp.http import RawResponseMessage

from relay_localcloud.egress.lookups import Lookups
from relay_localcloud.egress.reach import AddressRefusedError, Reach, check

_LOOKUPS: Final = Lookups()  # one for the process, since its threads are
MOST_UNREAD: Final = 16
"""How many answers a server may send before the first of them is read: a request has one, after a few with 1xx."""


class _Answers(ResponseHandler):
    """The answers of one server, which is disconnected if it sends more of them than requests can have."""

    def feed_data(self, data: tuple[RawResponseMessage, aiohttp.StreamReader], size: int = 0) -> None:
        """Queue an answer; nothing else bounds how many one server can make this process hold."""
        if len(self) < MOST_UNREAD:
            super().feed_data(data, size)
        else:
            self.abort()


class Resolver(AbstractResolver):
    """Resolves a name for each connection, and refuses it if any of its addresses is not allowed."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Resolve a name. Raises OSError, such as AddressRefusedError."""
        results = [_numeric(host, *found) for found in await _LOOKUPS.of(host, port, family)]
        for result in results:
            check(self._reach, result["host"])
        return results

    async def close(self) -> None:
        """Does nothing: all resolvers share the lookups."""


def _numeric(
    name: str, family: int, _kind: int, protocol: int, _canonical: str, address: Sequence[Any]
) -> ResolveResult:
    host, port, *more = address
    scope = f"%{more[1]}" if more and more[1] else ""  # of a link-local address of IPv6
    return ResolveResult(
        hostname=name, host=f"{host}{scope}", port=port, family=family, proto=protocol, flags=socket.AI_NUMERICHOST
    )


def connector_to(reach: Reach, *, verified: bool, **options: Any) -> aiohttp.TCPConnector:  # noqa: ANN401 - aiohttp's own
    """A connector that connects only within reach: the check is on the actual address, whatever name led to it.

    `verified`: certificates must be from a known authority.
    """

    def checked_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, destination = address
        check(reach, str(destination[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=Resolver(reach), use_dns_cache=False, socket_factory=checked_socket, ssl=verified, **options
    )
    factory = partial(_Answers, asyncio.get_running_loop())
    connector._factory = cast("partial[ResponseHandler]", factory)  # noqa: SLF001 - aiohttp has no option for it
    return connector


def was_refused(error: BaseException) -> bool:
    """Whether a connection failed because its address is not allowed."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, AddressRefusedError)
