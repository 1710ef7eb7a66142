"""Which object controls which, and what the one that controls asks of the others."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from relay_operator.api.meta import API_VERSION, ObjectKey

_OUTCOMES = ("Complete", "Failed")


@dataclass(frozen=True, slots=True)
class Owned:
    """What is known of an object that another of the operator's objects controls, without parsing it."""

    owner: ObjectKey
    owner_uid: str
    created: str
    """RFC 3339, as all times here; empty if it is not told."""
    outcome: str
    """The condition that ended it, `Complete` or `Failed`; empty while it is not finished."""
    ended: str


def owned(metadata: Mapping[str, JsonValue], status: Mapping[str, JsonValue]) -> Owned | None:
    """None if no object of the operator's group controls this one."""
    references = metadata.get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if not isinstance(reference, dict) or reference.get("controller") is not True:
            continue
        if reference.get("apiVersion") != API_VERSION:
            return None
        namespace = str(metadata.get("namespace") or "")
        owner = ObjectKey(str(reference.get("kind")), namespace, str(reference.get("name")))
        created = str(metadata.get("creationTimestamp") or "")
        return Owned(owner, str(reference.get("uid")), created, *_ending(status))
    return None


def _ending(status: Mapping[str, JsonValue]) -> tuple[str, str]:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") in _OUTCOMES and condition.get("status") == "True":
            return str(condition["type"]), str(condition.get("lastTransitionTime") or "")
    return "", ""
