"""Makes the cloud's texts safe to show in logs, events, status and exceptions. Pure."""

import re
from collections.abc import Iterable, Iterator

from pydantic import BaseModel

MAX_MESSAGE_CHARS = 500
_MASK = "[redacted]"
_SECRETS = re.compile(r"(?i)\b(?:(?:or|vl|whsec)_[a-z0-9][\w-]{5,}|bearer\s+[^\s\"',;]+)")
# Shorter values, such as "3" or "true", are no secrets, and masking them would make texts unreadable.
_MIN_SECRET_CHARS = 6


def presentable(text: str, secrets: Iterable[str] = ()) -> str:
    """The text on one line without control characters and secrets, at most `MAX_MESSAGE_CHARS` long."""
    lines = {line.strip() for secret in secrets for line in secret.splitlines()}
    for line in sorted(lines, key=len, reverse=True):
        if len(line) >= _MIN_SECRET_CHARS:
            text = text.replace(line, _MASK)
    text = _SECRETS.sub(_MASK, text)
    shown = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return shown if len(shown) <= MAX_MESSAGE_CHARS else shown[: MAX_MESSAGE_CHARS - 1] + "…"


def secrets_in(body: BaseModel | None) -> Iterator[str]:
    """The strings in fields that a model keeps out of its `repr`: env vars, boot scripts, keys."""
    if body is None:
        return
    for name, field in type(body).model_fields.items():
        if not field.repr:
            value = getattr(body, name)
            yield from value.values() if isinstance(value, dict) else [value] if isinstance(value, str) else []
