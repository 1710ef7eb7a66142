"""Waiting for one object by a watch: most looks at it would find what the one before found."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.support.eventually import eventually
from tests.support.kube import RESOURCES

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.kube import Kube, Manifest

_AGAIN_SECONDS = 1.0
"""How long after a change the condition is tried again, since it may depend on more than the object."""


async def becomes(
    kube: Kube, kind: str, name: str, wanted: Callable[[Manifest | None], object], *, within: float, what: str
) -> Manifest | None:
    """Waits until `wanted` accepts the object, or None while it does not exist, and returns it; as `eventually`."""
    async with _watched(kube, kind, name) as watched:
        return await eventually(
            watched.look, wanted, within=within, every=_AGAIN_SECONDS, what=what, pause=watched.changed
        )


@dataclass
class _Watched:
    """One object; it is watched from the first wait for a change on."""

    kube: Kube
    kind: str
    name: str
    _latest: Manifest | None = None
    _version: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _following: asyncio.Task[None] | None = None

    async def look(self) -> Manifest | None:
        """The object as last seen; None if it does not exist."""
        if self._following is None or self._following.done():
            self._following = None
            listed = await self.kube.call("GET", RESOURCES[self.kind].path(self.kube.namespace), params=self._only)
            self._latest = next(iter(listed["items"]), None)
            if self._latest is not None:
                self._latest |= {"apiVersion": listed["apiVersion"], "kind": self.kind}
            self._version = listed["metadata"]["resourceVersion"]
        return self._latest

    async def changed(self, seconds: float) -> None:
        """Waits for a change, or the end of the watch, at most so many seconds."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._news.wait()
        self._news.clear()

    async def _follow(self) -> None:
        try:
            async for event in self.kube.watch(self.kind, resourceVersion=self._version, **self._only):
                if event["type"] == "ERROR":
                    return
                self._latest = None if event["type"] == "DELETED" else event["object"]
                self._news.set()
        finally:
            self._news.set()

    @property
    def _only(self) -> dict[str, str]:
        return {"fieldSelector": f"metadata.name={self.name}"}

    async def end(self) -> None:
        """Ends the watch; what broke it does not matter, since each look after that asks again."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.wait({self._following})


@asynccontextmanager
async def _watched(kube: Kube, kind: str, name: str) -> AsyncIterator[_Watched]:
    watched = _Watched(kube, kind, name)
    try:
        yield watched
    finally:
        await watched.end()
