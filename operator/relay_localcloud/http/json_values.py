"""How many values a JSON text has, found out before it is parsed, in steps that take milliseconds.

Parsing and validating cannot be interrupted, and take time by the value rather than by the byte.
"""

import asyncio
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

MOST_VALUES: Final = 50_000
"""Parsed and validated in less than 100 ms."""
_IN_TEXT: Final = re.compile(rb'(?:[^"\\]+|\\.)*+', re.DOTALL)
_OPENING_OR_NEXT: Final = (b",", b"[", b"{")
"""Each value but the first comes after one of these."""
_QUOTE: Final = ord('"')
_WINDOW: Final = 64 * 1024
_TEXTS_A_STEP: Final = 2_000
_BYTES_A_STEP: Final = 1024 * 1024


def exceeds(raw: bytes, most: int = MOST_VALUES) -> Iterator[bool]:
    """True as soon as it has more values than that, and until then False after each step.

    Values are items of lists and members of objects, empty ones counted as if they had one.
    """
    found = 0  # those in texts included
    for at in range(0, len(raw), _BYTES_A_STEP):
        found += _separators(raw, at, at + _BYTES_A_STEP)
        if found > most:
            break
        yield False
    else:
        return
    found, at, texts, rested = 0, 0, 0, 0
    while at < len(raw):
        quote = raw.find(_QUOTE, at)
        end = quote if quote >= 0 else len(raw)
        found += _separators(raw, at, end)
        if found > most:
            yield True
            return
        at, texts, closed = end + 1, texts + 1, False
        while not closed and at < len(raw):
            at, closed = _after_text(raw, at)
            if texts % _TEXTS_A_STEP == 0 or at - rested > _BYTES_A_STEP:
                rested = at
                yield False


def parsed(raw: bytes | str) -> JsonValue:
    """What a JSON text says; ValueError if it says nothing.

    None of its strings is kept for texts to come, which might be secret, and would hold the memory around it.
    """
    document: JsonValue = from_json(raw, allow_inf_nan=False, cache_strings="none")
    return document


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage while a document is read or written: all of it is alive, and to look takes longer.

    Nothing may be awaited inside.
    """
    outermost = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if outermost:
            gc.enable()


async def has_more(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether it has more values than that; others have their turn between the steps."""
    for too_many in exceeds(raw, most):
        if too_many:
            return True
        await asyncio.sleep(0)
    return False


def _after_text(raw: bytes, at: int) -> tuple[int, bool]:
    """Where a text goes on that is not over within a window, or what follows it, and whether it is over."""
    match = _IN_TEXT.match(raw, at, at + _WINDOW)
    end = at if match is None else match.end()
    if end < len(raw) and raw[end] == _QUOTE:
        return end + 1, True
    return max(end, at + 1), False


def _separators(raw: bytes, start: int, end: int) -> int:
    return sum(raw.count(each, start, end) for each in _OPENING_OR_NEXT)
