"""JSON that is nested deeper, or has more lists and objects, than its readers take.

The API server takes 10,000 levels, they take far fewer. An object of 1.5 MiB has room for half a million lists, and all
who are served wait while these are decoded. Nor does orjson write an integer of more than 64 bits. The API server
writes numbers up to 10^21 with all their digits. Whoever may write an object with a free-form field must not stop those
who read it along with others.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, TypeAlias

import orjson
from pydantic import JsonValue

DEEPEST: Final = 250
"""Levels that are kept. orjson writes 254 and reads 1,024, kopf reads some 900; pydantic refuses more than 200."""
MOST: Final = 40_000
"""Lists and objects in one object: in half a mebibyte, one for every 13 bytes. A batch has 1,000 inline records."""
_MOST_IN_FIELD: Final = 1_000
"""In one field of the metadata, spec or status of an object that has more than `MOST`."""
_REFUSED: Final = b"[" * (DEEPEST - 5) + b"]" * (DEEPEST - 5)
"""Takes the place of a field with more: pydantic reads nothing of an object with it, and all others can read it."""
_INTEGERS: Final = range(-(2**63), 2**64)
"""What orjson writes; larger ones it reads as floating-point numbers, as the API server does."""
_STRETCH: Final = 128
"""Bytes of which only the brackets are counted if these do not suffice to cross `DEEPEST`."""
_BLOCK: Final = 1024
"""Bytes of which brackets are only counted if the wanted one is not among them."""
_ONE_KIND: Final = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS: Final = bytes.maketrans(b"[]{}", b"____")
_STEPS: Final = bytes.maketrans(b"[]", b"\x01\xff")
_NO_STEPS: Final = bytes(set(range(256)) - set(b"[]"))
_OPENS, _CLOSES = b"[]"
_Span: TypeAlias = tuple[int, int]
"""From where and up to where, exclusively."""


def decoded(text: bytes, objects: int = 0) -> JsonValue:
    """The value of a text, without what `shallow` leaves out. Raises JSONDecodeError."""
    if objects and len(text) > 2 * MOST and _opened(text) > MOST:
        text = shallow(text, objects)
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


def shallow(text: bytes, objects: int = 0) -> bytes:
    """The JSON text with null in place of what is nested deeper than `DEEPEST` levels.

    `objects` is the level of the API's objects in it (1 for an object itself), or 0 if it has none. In each of them
    that has more than `MOST` lists and objects, something too deep for pydantic takes the place of each field of its
    metadata, spec and status that is full of them.

    All who are served wait for it, so brackets are looked at one by one only near the border.
    """
    opened = _opened(text)
    if opened <= DEEPEST:
        return text
    brackets = _brackets(text)
    deep = list(_deep(brackets))
    text = _replaced(text, deep, b"null")
    if objects and opened > MOST:
        brackets = _replaced(brackets, deep, b"null")
        text = _replaced(text, _dense(brackets, objects), _REFUSED)
    return text


def _opened(text: bytes) -> int:
    """How many lists and objects there are at most: brackets in strings count too."""
    return text.count(b"{") + text.count(b"[")


def _replaced(text: bytes, spans: Sequence[_Span], by: bytes) -> bytes:
    kept, end = list[bytes](), 0
    for start, stop in spans:
        kept += [text[end:start], by]
        end = stop
    return b"".join([*kept, text[end:]])


def _deep(brackets: bytes) -> Iterator[_Span]:
    """What is nested deeper than `DEEPEST` levels."""
    level, begin = 0, 0
    for start in range(0, len(brackets), _STRETCH):
        stretch = brackets[start : start + _STRETCH]
        opened, closed = stretch.count(b"["), stretch.count(b"]")
        if level + opened <= DEEPEST or level - closed > DEEPEST:
            level += opened - closed
            continue
        for at, byte in enumerate(stretch, start):
            if byte == _OPENS:
                level += 1
                if level == DEEPEST + 1:
                    begin = at
            elif byte == _CLOSES:
                level -= 1
                if level == DEEPEST:
                    yield begin, at + 1


def _dense(brackets: bytes, objects: int) -> list[_Span]:
    """The fields of metadata, spec and status that have too many lists and objects, of objects that have too many."""
    try:
        levels = bytes(accumulate(array("b", brackets.translate(_STEPS, _NO_STEPS))))
    except ValueError:  # it is no JSON
        return []
    numbers = [
        number
        for start, stop in _at(levels, objects, 0, len(levels))
        if stop - start > 2 * MOST
        for field in _at(levels, objects + 2, start, stop)
        if field[1] - field[0] > 2 * _MOST_IN_FIELD
        for number in (field[0], field[1] - 1)
    ]
    places = list(_places(brackets, numbers))
    return [(start, last + 1) for start, last in zip(places[::2], places[1::2], strict=True)]


def _at(levels: bytes, level: int, start: int, stop: int) -> Iterator[_Span]:
    """The lists and objects at a level, as numbers of brackets; `levels` has the level after each bracket."""
    while (first := levels.find(level, start, stop)) >= 0 and (last := levels.find(level - 1, first, stop)) >= 0:
        start = last + 1
        yield first, start


def _places(brackets: bytes, numbers: Sequence[int]) -> Iterator[int]:
    """Where the brackets with these numbers are, which ascend."""
    alike, start, passed = brackets.replace(b"]", b"["), 0, 0
    for number in numbers:
        while passed + (counted := alike.count(b"[", start, start + _BLOCK)) <= number:
            start, passed = start + _BLOCK, passed + counted
        at = start - 1
        for _ in range(passed, number + 1):
            at = alike.find(b"[", at + 1)
        yield at


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
