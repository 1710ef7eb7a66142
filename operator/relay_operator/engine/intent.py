"""The names and fingerprints of the create protocol. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import NoneType

from pydantic import JsonValue

from relay_operator.api.meta import CREATE_INTENT, CreateIntent, MalformedIntent
from relay_operator.engine.manifests import part, rows

MAX_NAME = 63
UID_PART = 10
_UNSAFE = re.compile(r"[^a-z0-9]+")
_SCALARS = (int, NoneType)
_LONGEST_REMEMBERED = 128
"""In characters; longer ones are scripts, which few objects share, and which would stay when their object is gone."""


def uid_part(uid: str) -> str:
    """The part of a UID that names carry."""
    return uid.replace("-", "")[:UID_PART]


def cloud_name(namespace: str, name: str, uid: str, installation: str, attempt: int) -> str:
    """The name that one attempt sends: readable, deterministic, at most 63 characters.

    The UID keeps two objects apart (also a deleted one and its namesake), and the installation two clusters in one
    organization; the attempt keeps a search from finding what an earlier attempt left behind.
    """
    parts = (uid_part(uid), installation, str(attempt) if attempt > 1 else "")
    suffix = "".join(f"-{part}" for part in parts if part)
    readable = _UNSAFE.sub("-", f"{namespace}-{name}".lower()).strip("-")
    return readable[: MAX_NAME - len(suffix)].rstrip("-") + suffix


def named(cloud_id: str, name: str) -> str:
    """The name of an adopted resource as an intent holds it, cut to size: people choose names of any length."""
    return (name or cloud_id)[:MAX_NAME]


def intent_of(raw: Mapping[str, JsonValue]) -> CreateIntent | None:
    """The intent of an object given as JSON; None if it has none, or an unreadable one."""
    text = part(raw, "metadata", "annotations").get(CREATE_INTENT)
    intent = CreateIntent.parse(text) if isinstance(text, str) else None
    return intent if isinstance(intent, CreateIntent) else None


def is_open(
    intent: CreateIntent | MalformedIntent | None, token: JsonValue, cloud_id: JsonValue, spec_hash: JsonValue
) -> bool:
    """Whether a create may have been sent whose result status, with this token, id and hash, does not record.

    A hash without an id means that somebody removed the id: both are written at once, and cleared at once. About an
    unreadable intent, the token of an earlier one proves nothing.
    """
    if isinstance(intent, CreateIntent):
        return intent.token != token or bool(spec_hash and not cloud_id)
    return intent is not None and (not token or (not cloud_id and token != MalformedIntent.TOKEN))


@dataclass(frozen=True, slots=True)
class Has:
    """What an object has in the cloud, or may have; unknown values are empty."""

    id: str
    name: str
    organization: str
    endpoint: str
    part_of: str


def sent_to(intent: CreateIntent | None) -> str:
    """The organization that a create was sent to; empty if that is unknown."""
    return intent.identity.organization if intent is not None and intent.identity is not None else ""


def has(raw: Mapping[str, JsonValue]) -> Has:
    """What status records, or, if status lacks it, what the intent does."""
    status, intent = part(raw, "status"), intent_of(raw)
    identity = part(status, "identity")
    return Has(
        id=str(status.get("id") or ""),
        name=str(status.get("cloudName") or (intent.name if intent is not None else "")),
        organization=str(identity.get("organization") or sent_to(intent)),
        endpoint=str(identity.get("endpoint") or ""),
        part_of=str(status.get("partOf") or (intent.part_of if intent is not None else "")),
    )


def aside(status: Mapping[str, JsonValue]) -> list[tuple[str, str]]:
    """Ids and names of former resources, from a status."""
    return [(str(row.get("id") or ""), str(row.get("name") or "")) for row in rows(status.get("former"))]


class Unordered(list[JsonValue]):
    """Items whose order has no effect."""


def fingerprints(fields: Mapping[str, JsonValue]) -> str:
    """A short, stable hash per field, so that a later difference can be named; the fields must not contain secrets."""
    return ",".join(f"{name}={_digest(value)}" for name, value in sorted(fields.items()))


def changed_fields(recorded: str, fields: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """The fields that differ from those that `recorded` was made from; a field that it lacks does not count."""
    known = digests(recorded)
    return tuple(name for name, value in sorted(fields.items()) if name in known and not _fits(known[name], value))


def common(recorded: str, other: str) -> str:
    """The fingerprints that two records have in common."""
    known = digests(other)
    return ",".join(f"{name}={digest}" for name, digest in digests(recorded).items() if known.get(name) == digest)


@lru_cache(maxsize=256)  # objects with equal specs have equal records, at most 1,024 characters long
def digests(recorded: str) -> Mapping[str, str]:
    """The digest of each field that was recorded."""
    return dict(part.split("=", 1) for part in recorded.split(",") if "=" in part)


def _fits(digest: str, value: JsonValue) -> bool:
    if digest == _digest(value):
        return True
    # Objects may have recorded the items as the spec orders them.
    return isinstance(value, Unordered) and digest == _computed(value)


def _digest(value: JsonValue) -> str:
    # Objects share few values, hence the cache. `typed`: True equals 1, but their texts differ.
    if isinstance(value, str):
        return _remembered(value) if len(value) <= _LONGEST_REMEMBERED else _computed(value)
    if isinstance(value, _SCALARS):
        return _remembered(value)
    if not value and isinstance(value, list):
        return _EMPTY_LIST
    return _computed(sorted(value, key=_as_text) if isinstance(value, Unordered) else value)


_as_text = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _computed(value: JsonValue) -> str:
    return hashlib.sha256(_as_text(value).encode()).hexdigest()[:8]


_remembered = lru_cache(maxsize=4096, typed=True)(_computed)
_EMPTY_LIST = _computed([])
