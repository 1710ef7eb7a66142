"""A watch's lines without the news that are none."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TypeAlias

import aiohttp
import orjson
from pydantic import JsonValue

Knows: TypeAlias = Callable[[Mapping[str, JsonValue]], bool]
"""Whether an object is known as it is told, or newer."""

_BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%s"}}}'


class Sifted:
    """The body of a watch's answer. Whoever reads it otherwise than in chunks gets all of it."""

    def __init__(self, content: aiohttp.StreamReader, knows: Knows) -> None:
        self._content = content
        self._knows = knows

    def __getattr__(self, name: str) -> object:
        return getattr(self._content, name)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._content)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        """Whole lines, as they come, without those that are known."""
        rest = b""
        async for data in self._content.iter_chunked(size):
            *lines, rest = (rest + data).split(b"\n")
            if news := sifted(lines, self._knows):
                yield news
        if rest:
            yield rest


def sifted(lines: Iterable[bytes], knows: Knows) -> bytes:
    """The lines but for changes that are known; where such come last, a bookmark tells how far the stream went."""
    kept, passed = [], ""
    for line in lines:
        passed = _known_version(line, knows)
        if not passed:
            kept.append(line)
    if passed:
        kept.append(_BOOKMARK % passed.encode())
    return b"".join(line + b"\n" for line in kept)


def _known_version(line: bytes, knows: Knows) -> str:
    """Of a change that is known; empty for everything else, an object's end included."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        return ""
    match event:
        case {
            "type": "ADDED" | "MODIFIED",
            "object": {"metadata": {"name": str(), "resourceVersion": str(version)}} as raw,
        } if knows(raw):
            return version
        case _:
            return ""
