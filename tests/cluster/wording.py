"""How API servers of several releases word the same refusal."""

from __future__ import annotations

from typing import Final

_OLDER: Final = {
    "may not be longer than": "may not be more than",
    "must be of type integer": "must be of type int64",
    "Duplicate value: map[string]interface {}{": "Duplicate value: {",
}


def worded(message: str) -> str:
    """The message as Kubernetes 1.36 words it; 1.30 uses other words for these."""
    for older, newer in _OLDER.items():
        message = message.replace(older, newer)
    return message
