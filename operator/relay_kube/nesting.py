"""JSON that is nested deeper than its readers take: the API server takes 10,000 levels, they take far fewer.

Nor does orjson write an integer of more than 64 bits. The API server writes numbers up to 10^21 with all their digits.
Whoever may write an object with a free-form field must not stop those who read it along with others.
"""

from typing import Final

import orjson
from pydantic import JsonValue

DEEPEST: Final = 250
"""Levels that are kept. orjson writes 254 and reads 1,024, kopf reads some 900; pydantic refuses more than 200."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""What orjson writes; larger ones it reads as floating-point numbers, as the API server does."""
_STRETCH: Final = 128
"""Bytes of which only the brackets are counted if these do not suffice to cross `DEEPEST`."""
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes.maketrans(b"[]{}", b"____")
_OPENS, _CLOSES = b"[]"


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
    """The JSON text with null in place of what is nested deeper than `DEEPEST` levels.

    All who are served wait for it, so brackets are looked at one by one only near the border.
    """
    if text.count(b"{") + text.count(b"[") <= DEEPEST:
        return text
    brackets = _brackets(text)
    kept, level, end = list[bytes](), 0, 0
    for start in range(0, len(text), _STRETCH):
        stretch = brackets[start : start + _STRETCH]
        opened, closed = stretch.count(b"["), stretch.count(b"]")
        if level + opened <= DEEPEST or level - closed > DEEPEST:
            level += opened - closed
            continue
        for at, byte in enumerate(stretch, start):
            if byte == _OPENS:
                level += 1
                if level == DEEPEST + 1:
                    kept += [text[end:at], b"null"]
            elif byte == _CLOSES:
                level -= 1
                if level == DEEPEST:
                    end = at + 1
    return b"".join([*kept, text[end:]])


def _brackets(text: bytes) -> bytes:
    """As many bytes as the text has, with `[` and `]` where it opens and closes something, and nowhere else."""
    outside = text.replace(rb"\\", b"__").replace(rb"\"", b"__").split(b'"')
    outside[1::2] = b'"'.join(outside[1::2]).translate(_NO_BRACKETS).split(b'"')[: len(outside) // 2]
    return b'"'.join(outside).translate(_ONE_KIND)


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
