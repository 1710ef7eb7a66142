"""The API key of an account, in the Secret that its spec names. Pure."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class NoKey:
    """A message that says what is missing, and repeats nothing of the Secret."""

    message: str


def key_in(secret: Mapping[str, JsonValue], name: str, key: str) -> str | NoKey:
    """The API key, without surrounding spaces and line ends, which are never intended."""
    data = secret.get("data")
    encoded = data.get(key) if isinstance(data, dict) else None
    if not isinstance(encoded, str):
        return NoKey(f"the Secret {name} has no key {key}")
    try:
        value = base64.b64decode(encoded, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError):
        return NoKey(f"the key {key} of the Secret {name} is not text")
    return value or NoKey(f"the key {key} of the Secret {name} is empty")
