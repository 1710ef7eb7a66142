"""The create protocol's names and fingerprints. Pure."""

import hashlib
import json
import re

from pydantic import JsonValue

MAX_NAME = 63
_UID_PART = 10
_UNSAFE = re.compile(r"[^a-z0-9]+")


def cloud_name(namespace: str, name: str, uid: str, attempt: int) -> str:
    """The name one attempt sends: readable, the same every time it is computed, at most 63 characters.

    The UID keeps two objects apart (also a deleted one and its namesake); the attempt keeps a search for
    this one from finding what an earlier one left behind.
    """
    suffix = "-" + uid.replace("-", "")[:_UID_PART] + (f"-{attempt}" if attempt > 1 else "")
    readable = _UNSAFE.sub("-", f"{namespace}-{name}".lower()).strip("-")
    return readable[: MAX_NAME - len(suffix)].rstrip("-") + suffix


def fingerprint(fields: JsonValue) -> str:
    """A short, stable hash of what a create sends; secrets must not be in it."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
