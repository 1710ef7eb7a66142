"""Which object controls which, and what the controlling one needs to know of the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_operator.api.meta import API_VERSION, ObjectKey
from relay_operator.engine.manifests import rows

_OUTCOMES = ("Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Owned:
    """What is known, without parsing it, of an object that another of the operator's objects controls."""

    owner: ObjectKey
    owner_uid: str
    outcome: str
    """The condition that ended it, `Complete` or `Failed`; empty until it is finished."""
    ended: str
    """RFC 3339; empty if unknown."""


def owned(metadata: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> Owned | None:
    """The owner and outcome of an object; None if no object of the operator's group controls it."""
    for reference in rows(metadata.get("ownerReferences")):
        if reference.get("controller") is not True:
            continue
        if reference.get("apiVersion") != API_VERSION:
            return None
        namespace = str(metadata.get("namespace") or "")
        owner = ObjectKey(str(reference.get("kind")), namespace, str(reference.get("name")))
        return Owned(owner, str(reference.get("uid")), *_ending(status))
    return None


def _ending(status: Mapping[str, JsonValue]) -> tuple[str, str]:
    for condition in rows(status.get("conditions")):
        if condition.get("type") in _OUTCOMES and condition.get("status") == "True":
            return str(condition["type"]), str(condition.get("lastTransitionTime") or "")
    return "", ""
