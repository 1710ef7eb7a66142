"""An object that is gone, as what it has in the cloud is taken to its end: plain JSON. Pure."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import JsonValue

from relay_kube.kube import JsonObject
from relay_operator.api.cloudaccount_status import Ownerless
from relay_operator.api.meta import ANNOTATION_PREFIX, CREATE_INTENT, PAUSED, PLAN_ONLY, ObjectKey, rfc3339
from relay_operator.engine.fit_schema import fit_schema, moment
from relay_operator.engine.intent import has
from relay_operator.engine.manifests import part, rows
from relay_operator.engine.persist import records
from relay_wire.batches import FINAL

_UNDONE = frozenset({PAUSED, PLAN_ONLY})
"""Annotations that are dropped, since nobody can remove them without an object."""


def ending(raw: Mapping[str, JsonValue], known: Mapping[str, JsonValue], now: datetime) -> JsonObject:
    """The object as one that is being deleted; what is reported later of it completes what was `known`.

    The environment and the managed fields are left out: it has to fit into a ConfigMap, and to be readable.
    """
    metadata = part(raw, "metadata")
    # The caller may know less than an earlier one: neither people's answers nor an id must be lost.
    told = _ours({"annotations": {**answers(known), **part(metadata, "annotations")}})
    annotations = {name: value for name, value in told.items() if name not in _UNDONE}
    intent, knows_all = annotations.get(CREATE_INTENT), records(known).every_id >= records(raw).every_id
    same_create = intent is not None and part(known, "metadata", "annotations").get(CREATE_INTENT) == intent
    status = part(known if same_create and knows_all else raw, "status")
    return {
        **raw,
        "spec": _but(part(raw, "spec"), "env"),
        "status": dict(status),
        "metadata": {
            **_but(metadata, "managedFields"),
            "annotations": annotations,
            "deletionTimestamp": rfc3339(now),
        },
    }


def answered(raw: JsonObject, metadata: Mapping[str, JsonValue]) -> JsonObject:
    """The object with the answers that people gave on its ConfigMap, which has this metadata."""
    asked: JsonObject = {**_ours(metadata), **dict.fromkeys(_UNDONE)}
    return merged(raw, {"metadata": {"annotations": asked}})


def merged(before: Mapping[str, JsonValue], patch: Mapping[str, JsonValue]) -> JsonObject:
    """The object after a merge patch (RFC 7386)."""
    after = {name: value for name, value in before.items() if patch.get(name, value) is not None}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            after[name] = merged(part(before, name), value)
        elif value is not None:
            after[name] = value
    return after


def _but(members: Mapping[str, JsonValue], left_out: str) -> JsonObject:
    return {name: value for name, value in members.items() if name != left_out}


def answers(raw: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The annotations with our prefix, among them what people ask for."""
    return _ours(part(raw, "metadata"))


def _ours(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in part(metadata, "annotations").items() if name.startswith(ANNOTATION_PREFIX)}


def ownerless(key: ObjectKey, raw: Mapping[str, JsonValue]) -> Ownerless:
    """The entry in an account's status."""
    left = has(raw)
    told: dict[str, object] = {
        "kind": key.kind,
        "of": f"{key.namespace}/{key.name}",
        "id": left.id or None,
        "name": left.name or None,
        "since": moment(str(part(raw, "metadata").get("deletionTimestamp"))),
    }
    return Ownerless.model_validate(fit_schema(Ownerless, told))


def unfinished(status: Mapping[str, JsonValue]) -> list[str]:
    """The ids of a batch's parts that still run, as far as its status tells."""
    parts = rows(status.get("parts"))
    return [str(row.get("batchId") or "") for row in parts if str(row.get("state")) not in FINAL]
