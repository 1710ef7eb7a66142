"""JSON that is nested deeper than its readers take: the API server takes 10,000 levels, they take far fewer.

Nor does orjson write an integer of more than 64 bits. The API server writes numbers up to 10^21 with all their digits.
Whoever may write an object with a free-form field must not stop those who read it along with others.
"""

import re
from typing import Final

import orjson
from pydantic import JsonValue

DEEPEST: Final = 250
"""Levels that are kept. orjson writes 254 and reads 1,024, kopf reads some 900; pydantic refuses more than 200."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""What orjson writes; larger ones it reads as floating-point numbers, as the API server does."""
_PARTS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[\]{}]')


def decoded(text: bytes) -> JsonValue:
    """The value of a text, with null in place of what is nested too deeply to be read. Raises JSONDecodeError."""
    try:
        value: JsonValue = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = orjson.loads(shallow(text))
    return value


def encoded(value: JsonValue) -> bytes:
    """The text of a decoded value, with null in place of what is nested too deeply to be written."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_cut(value, DEEPEST))


def shallow(text: bytes) -> bytes:
    """The text with null in place of what is nested deeper than `DEEPEST` levels."""
    if text.count(b"{") + text.count(b"[") <= DEEPEST:
        return text
    kept, level, end = list[bytes](), 0, 0
    for found in _PARTS.finditer(text):
        part = found.group()
        if part in b"{[":
            level += 1
            if level == DEEPEST + 1:
                kept += [text[end : found.start()], b"null"]
        elif part in b"}]":
            level -= 1
            if level == DEEPEST:
                end = found.end()
    return b"".join([*kept, text[end:]])


def _cut(value: JsonValue, levels: int) -> JsonValue:
    match value:
        case dict():
            return {name: _cut(each, levels - 1) for name, each in value.items()} if levels else None
        case list():
            return [_cut(each, levels - 1) for each in value] if levels else None
        case int() if value not in _INTEGERS:
            return float(value)
        case _:
            return value
