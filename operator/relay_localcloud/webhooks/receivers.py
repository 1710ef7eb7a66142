"""HTTP to the receivers of webhooks. Imports aiohttp, so `deliveries.py` loads this module in the background."""

import asyncio
import time
from collections.abc import Mapping
from typing import Final

import aiohttp

from relay_localcloud.egress.connections import connector_to, was_refused
from relay_localcloud.egress.reach import Reach
from relay_localcloud.webhooks.outcomes import Outcome

_ANSWER_READ = 65_536
_OUT_OF_REACH: Final = (
    "there is no such host, or its address is internal or private: "
    "this cloud calls public ones, and what --allow-network names"
)


class Caller:
    """Posts to receivers over reused connections."""

    def __init__(self, most_connections: int, reach: Reach) -> None:
        self._on_loopback = reach.loopback
        # Receivers on a laptop have self-signed certificates; idle connections end before servers close them.
        verified = not self._on_loopback
        connector = connector_to(reach, verified=verified, limit=most_connections, keepalive_timeout=2)
        self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    async def post(self, url: str, body: bytes, headers: Mapping[str, str], limit_seconds: float) -> Outcome:
        """Post once, without following redirects; any failure becomes an outcome."""
        started = time.monotonic()
        status: int | None = None
        error: str | None = None
        hung = False
        try:
            async with (
                asyncio.timeout(limit_seconds),
                self._session.post(url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                status = response.status
                await response.content.read(_ANSWER_READ)  # only then can the connection be reused
        except TimeoutError:
            hung, error = True, f"no answer within {limit_seconds:g} seconds"
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            error = self._said(failure)
        return Outcome(status, error, round((time.monotonic() - started) * 1000), hung)

    def _said(self, failure: Exception) -> str:
        """The failure; beyond loopback neither an address nor whether a name exists, since both are the cloud's own."""
        if self._on_loopback:
            return f"{type(failure).__name__}: {failure}"[:500]
        if was_refused(failure) or isinstance(failure, aiohttp.ClientConnectorDNSError):
            return _OUT_OF_REACH
        return type(failure).__name__

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()
