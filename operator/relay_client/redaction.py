"""Makes the cloud's texts safe to show in logs, events, status and exceptions. Pure."""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from pydantic import BaseModel

T = TypeVar("T")

MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 4096
"""The most characters of each text in a result."""
_MASK = "[redacted]"
_SECRETS = re.compile(r"(?i)\b(?:(?:or|vl|whsec)_[a-z0-9][\w-]{5,}|bearer\s+[^\s\"',;]+)")
# Shorter values, such as "3" or "true", are not secrets, and masking them would make texts unreadable.
_MIN_SECRET_CHARS = 6


def presentable(text: str, secrets: Iterable[str] = ()) -> str:
    """The text on one line, without control characters and secrets, at most `MAX_MESSAGE_CHARS` long."""
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    for line in sorted(lines, key=len, reverse=True):
        if len(line) >= _MIN_SECRET_CHARS:
            text = text.replace(line, _MASK)
    text = _SECRETS.sub(_MASK, text)
    return _cut(_line(text), MAX_MESSAGE_CHARS)


def legible(result: T, body: bytes) -> T:
    """The result read from `body`, with texts free of control characters and at most `MAX_TEXT_CHARS` long.

    Tabs stay, since they are harmless and the cloud's words are mirrored verbatim. Fields that a model hides from its
    `repr` are secrets and cursors, which nobody is shown, and stay unchanged.
    """
    # Nearly all answers are plain: unprintable characters are escaped in JSON, or not ASCII.
    plain = body.isascii() and b"\\" not in body and b"\x7f" not in body
    if plain and (len(body) <= MAX_TEXT_CHARS or max(map(len, body.split(b'"'))) <= MAX_TEXT_CHARS):
        return result
    return cast("T", _legible(result))


def _legible(value: object) -> object:
    match value:
        case str():
            parts = value.split("\t")
            shown = parts if all(part.isprintable() for part in parts) else map(_line, parts)
            return _cut("\t".join(shown), MAX_TEXT_CHARS)
        case BaseModel():
            fields = {name: getattr(value, name) for name, field in type(value).model_fields.items() if field.repr}
            return value.model_copy(update={name: _legible(each) for name, each in fields.items()})
        case list():
            return [_legible(each) for each in value]
        case dict():
            return {_legible(name): _legible(each) for name, each in value.items()}
        case _:
            return value


def _line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def secrets_in(body: BaseModel | None) -> Iterator[str]:
    """The strings in fields that a model hides from its `repr`: env vars, boot scripts, arguments, keys."""
    if body is None:
        return
    for name, field in type(body).model_fields.items():
        if not field.repr:
            match getattr(body, name):
                case str(text):
                    yield text
                case dict(texts):
                    yield from texts.values()
                case list(texts):
                    yield from texts
