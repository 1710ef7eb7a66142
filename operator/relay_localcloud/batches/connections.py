"""HTTP to tool executors that connects to allowed addresses only. Imports aiohttp: loaded when first needed."""

import asyncio
import socket
from typing import Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.connector import AddrInfoType
from yarl import URL

from relay_localcloud.batches.addresses import AddressRefusedError, Reach, check
from relay_localcloud.batches.tool_config import Tools

LARGEST_ANSWER: Final = 10 * 1024 * 1024

_LEEWAY_SECONDS: Final = 1.0
"""Whoever waits for a round gives up first; this bounds what is left then, such as the farewell of a session."""
_LONGEST_LOOKUP_SECONDS: Final = 5.0


class _Resolver(AbstractResolver):
    """Resolves a name afresh for each connection, and refuses it where any of its addresses is not allowed."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._resolver = aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Raises AddressRefusedError."""
        results = await self._resolver.resolve(host, port, family)
        for result in results:
            check(self._reach, result["host"])
        return results

    async def close(self) -> None:
        """Nothing is held."""


def session(tools: Tools) -> aiohttp.ClientSession:
    """A session for one record; whatever it connects to is checked by its address, which a name cannot hide."""

    def checked_socket(address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, destination = address
        check(tools.reach, str(destination[0]))
        return socket.socket(family, kind, protocol)

    connector = aiohttp.TCPConnector(
        resolver=_Resolver(tools.reach),
        use_dns_cache=False,
        force_close=True,
        socket_factory=checked_socket,
        # Only loopback is let in by that setting, and executors on a laptop have certificates of their own making.
        ssl=not tools.reach.loopback,
    )
    headers = {} if tools.authorization is None else {"Authorization": tools.authorization}
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=tools.timeout_seconds + _LEEWAY_SECONDS),
        trust_env=False,
    )


async def leads_astray(tools: Tools) -> bool:
    """Whether the name resolves to an address that is not allowed, or over plain http to none at all.

    With https, a name that does not resolve may never be called, or resolve by then.
    """
    url = URL(tools.url)
    try:
        async with asyncio.timeout(_LONGEST_LOOKUP_SECONDS):
            await _Resolver(tools.reach).resolve(url.host or "", url.port or 0, socket.AF_UNSPEC)
    except AddressRefusedError:
        return True
    except (OSError, TimeoutError):
        return not tools.reach.public
    return False


def was_refused(error: BaseException) -> bool:
    """Whether a connection failed because its address is not allowed."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, AddressRefusedError)
