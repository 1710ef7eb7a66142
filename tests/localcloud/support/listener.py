"""Servers of tests that the local cloud calls: each listens on a free port of loopback for as long as it is entered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from aiohttp import web

if TYPE_CHECKING:
    import asyncio
    import ssl
    from types import TracebackType


@dataclass(kw_only=True)
class Listener(ABC):
    """Takes every call; `url` says where, with `path` at its end."""

    path: ClassVar[str]
    hang: asyncio.Event | None = None
    """If set, every call waits for it."""
    tls: ssl.SSLContext | None = None
    url: str = ""
    _runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        self._runner = self.runner()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls).start()
        scheme = "http" if self.tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}{self.path}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.hang is not None:
            self.hang.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def runner(self) -> web.AppRunner:
        application = web.Application()
        application.router.add_route("*", "/{tail:.*}", self.take)
        return web.AppRunner(application, shutdown_timeout=0.1)

    @abstractmethod
    async def take(self, request: web.Request) -> web.StreamResponse:
        """Answers a call."""
