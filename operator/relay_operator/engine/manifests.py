"""Objects of the Kubernetes API as plain JSON. What is of another shape than it should be counts as absent. Pure."""

import base64
import binascii
from collections.abc import Mapping

from pydantic import JsonValue

from relay_kube.kube import JsonObject
from relay_operator.api.meta import API_VERSION, FINALIZER, ObjectKey


def part(raw: JsonValue | Mapping[str, JsonValue], *path: str) -> Mapping[str, JsonValue]:
    """What is there; nothing where the path leads nowhere."""
    for name in path:
        raw = raw.get(name) if isinstance(raw, dict) else None
    return raw if isinstance(raw, dict) else {}


def held(metadata: Mapping[str, JsonValue]) -> bool:
    """Whether our finalizer is on the object."""
    finalizers = metadata.get("finalizers")
    return isinstance(finalizers, list) and FINALIZER in finalizers


def owner(key: ObjectKey, uid: str) -> JsonObject:
    """The reference by which Kubernetes deletes what was written together with the object."""
    return {"apiVersion": API_VERSION, "kind": key.kind, "name": key.name, "uid": uid, "controller": True}


def owners(raw: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    """The references to those that this object is deleted with."""
    references = part(raw, "metadata").get("ownerReferences")
    return [item for item in references if isinstance(item, Mapping)] if isinstance(references, list) else []


def is_owned_by(raw: Mapping[str, JsonValue], uid: str) -> bool:
    """Whether it is deleted with the object of this UID."""
    return any(reference.get("uid") == uid for reference in owners(raw))


def texts(data: JsonValue | Mapping[str, JsonValue], *, encoded: bool) -> Mapping[str, str]:
    """The texts of a Secret (base64) or a ConfigMap; what is not text is left out."""
    found: dict[str, str] = {}
    for name, value in part(data).items():
        if isinstance(value, str):
            try:
                found[name] = base64.b64decode(value).decode() if encoded else value
            except (binascii.Error, UnicodeDecodeError):
                continue
    return found


def as_secret(data: Mapping[str, str]) -> JsonObject:
    """The data of a Secret with these texts."""
    return {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
