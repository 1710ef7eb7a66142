"""Objects of the Kubernetes API as plain JSON; malformed values count as absent. Pure."""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pydantic import JsonValue

from relay_kube.errors import Refused
from relay_kube.kube import CONFIG_MAPS, SECRETS, JsonObject
from relay_operator.api.meta import API_VERSION, FINALIZER, ObjectKey

WORDS: Final = {SECRETS.plural: "Secret", CONFIG_MAPS.plural: "ConfigMap"}
"""What people call these, by plural."""


def part(raw: JsonValue | Mapping[str, JsonValue], *path: str) -> Mapping[str, JsonValue]:
    """The mapping at this path; empty if there is none."""
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def held(metadata: Mapping[str, JsonValue]) -> bool:
    """Whether our finalizer is on the object."""
    finalizers = metadata.get("finalizers")
    return isinstance(finalizers, list) and FINALIZER in finalizers


def owner(key: ObjectKey, uid: str) -> JsonObject:
    """The owner reference to an object, with which Kubernetes deletes its dependents."""
    return {"apiVersion": API_VERSION, "kind": key.kind, "name": key.name, "uid": uid, "controller": True}


def rows(value: JsonValue) -> list[Mapping[str, JsonValue]]:
    """The objects in a list; empty if it is none."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def number(value: JsonValue) -> int:
    """The integer; 0 if it is none."""
    return value if isinstance(value, int) else 0


def owners(raw: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    """The owner references of an object."""
    return rows(part(raw, "metadata").get("ownerReferences"))


def is_owned_by(raw: Mapping[str, JsonValue], uid: str) -> bool:
    """Whether the object has an owner reference with this UID."""
    return any(reference.get("uid") == uid for reference in owners(raw))


def texts(data: JsonValue | Mapping[str, JsonValue], *, encoded: bool) -> Mapping[str, str]:
    """The texts in the data of a Secret (base64) or a ConfigMap; values that are not text are left out."""
    found: dict[str, str] = {}
    for name, value in part(data).items():
        if isinstance(value, str):
            try:
                found[name] = base64.b64decode(value).decode() if encoded else value
            except (binascii.Error, UnicodeDecodeError):
                continue
    return found


def as_secret(data: Mapping[str, str]) -> JsonObject:
    """These texts as the data of a Secret."""
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}


@contextmanager
def unquoted(secret: str) -> Iterator[None]:
    """Raise the refusal of a write to this Secret without its message: policies may quote what they refuse."""
    try:
        yield
    except Refused as refused:
        raise Refused(refused.status, refused.reason, f"the Secret {secret} is not written") from None
