"""Makes the cloud's texts safe to show in logs, events, status and exceptions. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast

from pydantic import BaseModel

T = TypeVar("T")

MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 4096
"""The most characters of each text in a result."""
_READ_TIMES = 8
"""How many times as much of a text is read as may be shown, since masking and cleaning shorten it."""
_MASK = "[redacted]"
_SECRETS = re.compile(r"(?i)\b(?:(?:or|vl|whsec)_[a-z0-9][\w-]{5,}|bearer\s+[^\s\"',;]+)")
_CUT_SECRET = re.compile(r"(?i)\b(?:or|vl|whsec)_[\w-]{0,5}\Z")
"""The beginning of a secret, too short for `_SECRETS`, where a text was cut."""
_ODD_IN_ASCII = dict.fromkeys((*range(32), 127), " ")
# Shorter values, such as "3" or "true", are not secrets, and masking them would make texts unreadable.
_MIN_SECRET_CHARS = 6


def presentable(text: str, secrets: Iterable[str] = ()) -> str:
    """The text on one line, without control characters and secrets, at most `MAX_MESSAGE_CHARS` long."""
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    masked = sorted((line for line in lines if len(line) >= _MIN_SECRET_CHARS), key=len, reverse=True)
    head = text[: _whole_secrets(text, masked)]
    is_cut = len(head) < len(text)
    for line in masked:
        head = head.replace(line, _MASK)
    head = _SECRETS.sub(_MASK, head)
    return _cut(_line(_CUT_SECRET.sub("", head) if is_cut else head), MAX_MESSAGE_CHARS, is_cut=is_cut)


def _whole_secrets(text: str, longest_first: Sequence[str]) -> int:
    """Where to cut the text before it is masked, so that no secret is cut in two."""
    at = min(len(text), _READ_TIMES * MAX_MESSAGE_CHARS)
    # The longest come last, since a cut before a short secret may lie in a longer one. What a cut before a long secret
    # leaves of a shorter one that overlaps it, masking leaves as well.
    for line in reversed(longest_first):
        start = text.find(line, max(0, at - len(line) + 1), at + len(line) - 1)
        at = at if start < 0 else start
    return at


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
            if len(value) <= MAX_TEXT_CHARS and value.isprintable():
                return value
            head = value[: _READ_TIMES * MAX_TEXT_CHARS]
            parts = head.split("\t")
            shown = parts if all(part.isprintable() for part in parts) else map(_line, parts)
            return _cut("\t".join(shown), MAX_TEXT_CHARS, is_cut=len(head) < len(value))
        case BaseModel():
            return _legible_model(value)
        case list():
            return [_legible(each) for each in value]
        case dict():
            return {_legible(name): _legible(each) for name, each in value.items()}
        case _:
            return value


def _legible_model(model: BaseModel) -> BaseModel:
    """The model itself if all of it is legible: an answer may have tens of thousands of them."""
    fields, changed = type(model).model_fields, dict[str, object]()
    # What an answer leaves out has the default of the field, which is legible.
    for name in model.model_fields_set:
        value = getattr(model, name)
        if fields[name].repr and (shown := _legible(value)) != value:
            changed[name] = shown
    return model.model_copy(update=changed) if changed else model


def _line(text: str) -> str:
    if text.isascii():
        return " ".join(text.translate(_ODD_IN_ASCII).split())
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _cut(text: str, longest: int, *, is_cut: bool) -> str:
    return text[: longest - 1] + "…" if is_cut or len(text) > longest else text


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
