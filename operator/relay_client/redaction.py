"""Makes the cloud's texts safe to show in logs, events, status and exceptions. Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar, cast

from pydantic import BaseModel

T = TypeVar("T")
Span: TypeAlias = tuple[int, int]
"""Where a secret begins in a text, and where it ends."""

MAX_MESSAGE_CHARS = 500
MAX_TEXT_CHARS = 4096
"""The most characters of each text in a result."""
_READ_TIMES = 8
"""How many times as much of a text is read as may be shown, since masking and cleaning shorten it."""
_READ_CHARS = _READ_TIMES * MAX_MESSAGE_CHARS
MAX_PLACES = 5000
"""The most places in texts that are compared with lines of secrets that begin alike, each line counted for itself."""
_MASK = "[redacted]"
_WITHHELD = f"{_MASK}, since it may repeat values of the request"
_PREFIXES = ("or_", "vl_", "whsec_")
_SECRETS = re.compile(
    # Passwords in URLs come first: a key in one is only a part of what must not be shown.
    r"(?i)(?<=://)[^\s/@\"':]*:[^\s/@\"']++(?=@)"
    rf"|\b(?:{'|'.join(_PREFIXES)})[a-z0-9][\w-]{{5,}}"
    r"|\bbearer\s+[^\s\"',;]+"
    r"|\beyj[\w-]{10,}+\.[\w-]{10,}+\.[\w-]*"
)
SECRET_SIGNS = (*_PREFIXES, "bearer", "eyj", "://")
"""In lower case: each text in which `redact` finds something has one of these, and looking for them is quick."""
_CUT_SECRET = re.compile(
    rf"(?i)(?:(?<=://)[^\s/@\"':]*:[^\s/@\"']*+|\b(?:{'|'.join(_PREFIXES)})[\w-]{{0,5}}|\beyj[\w-]*+(?:\.[\w-]*+)?)\Z"
)
"""The beginning of a secret, too short for `_SECRETS`, where a text was cut."""
_ODD_IN_ASCII = dict.fromkeys((*range(32), 127), " ")
# Shorter values, such as "3" or "true", are not secrets, and masking them would make texts unreadable.
_MIN_SECRET_CHARS = 6


def redact(text: str) -> str:
    """The text without API keys, webhook secrets, bearer tokens, JSON Web Tokens and passwords in URLs."""
    return _SECRETS.sub(_MASK, text)


def presentable(text: str, secrets: Collection[str] = ()) -> str:
    """The text on one line, without control characters and secrets, at most `MAX_MESSAGE_CHARS` long."""
    return all_presentable([text], secrets)[0] if secrets else _presentable(text, [])


def all_presentable(texts: Sequence[str], secrets: Collection[str]) -> list[str]:
    """The texts as `presentable` makes them; none is shown if secrets may be in more than `MAX_PLACES`."""
    spans = _spans(texts, secrets)
    return [_WITHHELD] * len(texts) if spans is None else list(map(_presentable, texts, spans))


def _presentable(text: str, spans: Sequence[Span]) -> str:
    at = _cut_between(spans, min(len(text), _READ_CHARS))
    is_cut = at < len(text)
    head = redact(_masked(text[:at], [span for span in spans if span[1] <= at]))
    return _cut(_line(_CUT_SECRET.sub("", head) if is_cut else head), MAX_MESSAGE_CHARS, is_cut=is_cut)


def _spans(texts: Sequence[str], secrets: Collection[str]) -> list[list[Span]] | None:
    """Where lines of the secrets are in each text, if they begin in what is read; None if that takes too long to tell.

    A megabyte of secrets is gone through once, and only lines that begin like some place in the texts are compared.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    for which, text in enumerate(texts):
        for at in range(min(len(text) - _MIN_SECRET_CHARS + 1, _READ_CHARS)):
            places.setdefault(text[at : at + _MIN_SECRET_CHARS], []).append((which, at))
    long = (line.strip() for secret in secrets for line in secret.splitlines() if len(line) >= _MIN_SECRET_CHARS)
    # The rest of a longer line lies behind all that is read.
    lines = {line[:_READ_CHARS] for line in long if line[:_MIN_SECRET_CHARS] in places}
    compared = ((line, *place) for line in lines for place in places[line[:_MIN_SECRET_CHARS]])
    few = list(islice(compared, MAX_PLACES + 1))
    if len(few) > MAX_PLACES:
        return None
    spans: list[list[Span]] = [[] for _ in texts]
    for line, which, at in few:
        if texts[which].startswith(line, at):
            spans[which].append((at, at + len(line)))
    return spans


def _cut_between(spans: Iterable[Span], at: int) -> int:
    """Where to cut a text before it is masked, so that no secret is cut in two."""
    for start, end in sorted(spans, reverse=True):
        at = start if start < at < end else at
    return at


def _masked(text: str, spans: Iterable[Span]) -> str:
    """The text with masks for the longest of overlapping spans, of which others keep what lies outside."""
    taken, masked = bytearray(len(text)), list[Span]()
    for start, end in sorted(spans, key=lambda span: (span[0] - span[1], span)):
        if taken.find(1, start, end) < 0:
            taken[start:end] = b"\1" * (end - start)
            masked.append((start, end))
    for start, end in sorted(masked, reverse=True):
        text = text[:start] + _MASK + text[end:]
    return text


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
