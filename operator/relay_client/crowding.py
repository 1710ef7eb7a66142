"""Tells by a few counts which JSON has too many values to be decoded while others wait. Pure."""

from typing import Final

_QUOTES: Final = 4
"""Of a value at most: two of its name and two of its own."""


def is_crowded(text: bytes, most: int) -> bool:
    """Whether the text has more than `most` values, by its brackets and commas outside texts."""
    if len(text) <= most or sum(_counted(text)) <= most:
        return False
    unescaped = _unescaped(text)
    return unescaped.count(b'"') > _QUOTES * (most + 1) or sum(_counted(_bare(unescaped))) > most


def brackets_and_commas(text: bytes) -> tuple[int, int]:
    """How many lists and objects begin outside texts, and how many commas are there."""
    *brackets, commas = _counted(_bare(_unescaped(text)))
    return sum(brackets), commas


def _unescaped(text: bytes) -> bytes:
    return text.replace(rb"\\", b"").replace(rb"\"", b"")


def _bare(unescaped: bytes) -> bytes:
    return b"".join(unescaped.split(b'"')[::2])


def _counted(text: bytes) -> list[int]:
    return [text.count(each) for each in (b"{", b"[", b",")]
