"""Tells by a few counts which JSON has too many values to be decoded while others wait. Pure."""

from typing import Final

_QUOTES: Final = 4
"""Of a value at most: two of its name and two of its own."""


def is_crowded(text: bytes, most: int) -> bool:
    """Whether the text has more than `most` values, by its brackets and commas outside texts."""
    if len(text) <= most or _counted(text) <= most:
        return False
    bare = text.replace(rb"\\", b"").replace(rb"\"", b"")
    return bare.count(b'"') > _QUOTES * (most + 1) or _counted(b"".join(bare.split(b'"')[::2])) > most


def _counted(text: bytes) -> int:
    return sum(map(text.count, (b"{", b"[", b",")))
