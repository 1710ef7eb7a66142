"""The create protocol's names and fingerprints. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, CreateIntent
from relay_operator.engine.manifests import part

MAX_NAME = 63
UID_PART = 10
_UNSAFE = re.compile(r"[^a-z0-9]+")


def uid_part(uid: str) -> str:
    """What names carry of a UID."""
    return uid.replace("-", "")[:UID_PART]


def cloud_name(namespace: str, name: str, uid: str, installation: str, attempt: int) -> str:
    """The name one attempt sends: readable, the same every time it is computed, at most 63 characters.

    The UID keeps two objects apart (also a deleted one and its namesake), the installation two clusters in one
    organization; the attempt keeps a search for this one from finding what an earlier one left behind.
    """
    parts = (uid_part(uid), installation, str(attempt) if attempt > 1 else "")
    suffix = "".join(f"-{part}" for part in parts if part)
    readable = _UNSAFE.sub("-", f"{namespace}-{name}".lower()).strip("-")
    return readable[: MAX_NAME - len(suffix)].rstrip("-") + suffix


def named(cloud_id: str, name: str) -> str:
    """What an intent calls a resource that is adopted: people name things in the cloud as they like, and as long."""
    return (name or cloud_id)[:MAX_NAME]


def intent_of(raw: Mapping[str, JsonValue]) -> CreateIntent | None:
    """The intent of an object as JSON; None if it has none that can be read."""
    text = part(raw, "metadata", "annotations").get(CREATE_INTENT)
    intent = CreateIntent.parse(text) if isinstance(text, str) else None
    return intent if isinstance(intent, CreateIntent) else None


@dataclass(frozen=True, slots=True)
class Has:
    """What an object has in the cloud, or may have; empty texts if nobody knows."""

    id: str
    name: str
    organization: str
    part_of: str


def has(raw: Mapping[str, JsonValue]) -> Has:
    """As status tells, and its intent where status does not."""
    status, intent = part(raw, "status"), intent_of(raw)
    sent = intent.identity.organization if intent is not None and intent.identity is not None else ""
    return Has(
        id=str(status.get("id") or ""),
        name=str(status.get("cloudName") or (intent.name if intent is not None else "")),
        organization=str(part(status, "identity").get("organization") or sent),
        part_of=str(status.get("partOf") or (intent.part_of if intent is not None else "")),
    )


def aside(raw: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Ids and names of what it has put aside for another, as status tells."""
    former = part(raw, "status").get("former")
    rows = [part(row) for row in former] if isinstance(former, list) else []
    return [(str(row.get("id") or ""), str(row.get("name") or "")) for row in rows]


def fingerprints(fields: Mapping[str, JsonValue]) -> str:
    """A short, stable hash of every field, so that a later difference can be named; secrets must not be in it."""
    return ",".join(f"{name}={_digest(value)}" for name, value in sorted(fields.items()))


def changed_fields(recorded: str, fields: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The fields that are not what `recorded` was made from; none if nothing was recorded."""
    known = dict(part.split("=", 1) for part in recorded.split(",") if "=" in part)
    return tuple(name for name, value in sorted(fields.items()) if name in known and known[name] != _digest(value))


def _digest(value: JsonValue) -> str:
    # Objects ask for the same few things. `typed`: True and 1 are equal, and have other texts.
    if value == []:
        return _EMPTY_LIST
    return _remembered(value) if isinstance(value, str | int | None) else _computed(value)


_as_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _computed(value: JsonValue) -> str:
    return hashlib.sha256(_as_text(value).encode()).hexdigest()[:8]


_remembered = lru_cache(maxsize=4096, typed=True)(_computed)
_EMPTY_LIST = _computed([])
