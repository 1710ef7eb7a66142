"""Counts the values of a JSON text before it is parsed, in steps of milliseconds.

Parsing and validating cannot be interrupted, and their time depends on the number of values rather than of bytes.
"""

import asyncio
import gc
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pydantic import JsonValue
from pydantic_core import from_json

MOST_VALUES: Final = 50_000
"""So many values are parsed and validated in less than 100 ms."""
_IN_TEXT: Final = re.compile(rb'(?:[^"\\]+|\\.)*+', re.DOTALL)
_OPENING_OR_NEXT: Final = (b",", b"[", b"{")
"""Each value but the first follows one of these."""
_QUOTE: Final = ord('"')
_WINDOW: Final = 64 * 1024
_TEXTS_A_STEP: Final = 2_000
_BYTES_A_STEP: Final = 1024 * 1024


def exceeds(raw: bytes, most: int = MOST_VALUES) -> Iterator[bool]:
    """Yield True as soon as the text has more values than `most`, and until then False after each step.

    Values are items of lists and members of objects, empty ones counted as if they had one.
    """
    found = 0  # includes those in strings
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
    """Parse a JSON text; raises ValueError if it is invalid.

    Strings are not cached for later texts: they may be secret, and would keep the memory around them alive.
    """
    document: JsonValue = from_json(raw, allow_inf_nan=False, cache_strings="none")
    return document


def has_infinite(value: JsonValue) -> bool:
    """Whether a parsed document has a number too large for a double, such as 1e400, which no JSON could say again."""
    # Recursion is safe: the parser refuses nesting over 200 levels.
    if isinstance(value, dict):
        return any(map(has_infinite, value.values()))
    if isinstance(value, list):
        return any(map(has_infinite, value))
    return isinstance(value, float) and math.isinf(value)


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection while a document is read or written: all of it is alive, so collecting only costs time.

    Do not await inside.
    """
    outermost = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if outermost:
            gc.enable()


async def has_more(raw: bytes, most: int = MOST_VALUES) -> bool:
    """Whether the text has more values than `most`; other tasks run between the steps."""
    for too_many in exceeds(raw, most):
        if too_many:
            return True
        await asyncio.sleep(0)
    return False


def _after_text(raw: bytes, at: int) -> tuple[int, bool]:
    """Where a string continues that does not end within a window, or where it has ended, and whether it has."""
    match = _IN_TEXT.match(raw, at, at + _WINDOW)
    end = at if match is None else match.end()
    if end < len(raw) and raw[end] == _QUOTE:
        return end + 1, True
    return max(end, at + 1), False


def _separators(raw: bytes, start: int, end: int) -> int:
    return sum(raw.count(each, start, end) for each in _OPENING_OR_NEXT)
