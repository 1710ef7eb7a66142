"""Removes what is known already from a watch's lines and a list's pages."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TypeAlias, TypeGuard

import aiohttp
import orjson
from pydantic import JsonValue

from relay_kube.kube import JsonObject
from relay_kube.nesting import decoded, encoded, shallow

Knows: TypeAlias = Callable[[Mapping[str, JsonValue]], bool]
"""Whether this state of an object, or a newer one, is known."""

_shallow = partial(shallow, objects=2)
_ENDED_LIST = b'{"items":[],"metadata":{"resourceVersion":"%s"}}'


class Sifted:
    """The body of an answer without known objects: of a watch by `iter_chunked`, of a list by `read`.

    `listed` is the resourceVersion of a list whose objects are known; empty if there is none. All other reads return
    the body unchanged.
    """

    def __init__(self, content: aiohttp.StreamReader, knows: Knows, listed: str) -> None:
        self._content = content
        self._knows = knows
        self._listed = listed

    def __getattr__(self, name: str) -> object:
        return getattr(self._content, name)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._content)

    async def read(self) -> bytes:
        """The page without known objects."""
        body = await self._content.read()
        return _ENDED_LIST % self._listed.encode() if self._listed else sifted_page(body, self._knows)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines, as they arrive, without known changes."""
        rest = b""
        async for data in self._content.iter_chunked(size):
            *lines, rest = (rest + data).split(b"\n")
            if news := sifted(lines, self._knows):
                yield news
        if rest:
            yield rest


def sifted(lines: Iterable[bytes], knows: Knows) -> bytes:
    """The lines without known changes; the API server's bookmarks tell how far the stream went."""
    return b"".join([_shallow(line) + b"\n" for line in lines if not _is_known(line, knows)])


def sifted_page(body: bytes, knows: Knows) -> bytes:
    """The page without known objects; any other body stays as it is."""
    try:
        page = decoded(body, objects=3)
    except orjson.JSONDecodeError:
        return body
    if not isinstance(page, dict) or not isinstance(items := page.get("items"), list):
        return body
    news = [item for item in items if not (_is_object(item) and knows(item))]
    return encoded({**page, "items": news})


def _is_known(line: bytes, knows: Knows) -> bool:
    """Whether the line tells a known change; not so for everything else, including deletions."""
    try:
        event = decoded(line, objects=2)
    except orjson.JSONDecodeError:
        return False
    match event:
        case {"type": "ADDED" | "MODIFIED", "object": raw}:
            return _is_object(raw) and knows(raw)
        case _:
            return False


def _is_object(raw: JsonValue) -> TypeGuard[JsonObject]:
    match raw:
        case {"metadata": {"name": str(), "resourceVersion": str()}}:
            return True
        case _:
            return False
