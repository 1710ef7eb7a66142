"""Objects as the modelled API server stores them: comparable texts with everything that decisions depend on.

Conditions, times and copies of the cloud's state are left out, since no decision depends on them. The resourceVersion
is derived from the content: two objects have the same one exactly if they are equal. That allows slightly more than a
real server does, so the model misses nothing that can happen.
"""

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import orjson
from pydantic import JsonValue

from relay_kube.kube import JsonObject
from relay_operator.api.meta import ABANDON, ADOPT_ID, CREATE_INTENT, FINALIZER, RETRY_CREATE, CreateIntent, ObjectKey
from relay_operator.engine.manifests import held, part

KIND, BATCH, NAMESPACE = "GpuCluster", "InferenceBatch", "ns"
MOMENT = "2026-03-01T12:00:00Z"
"""The wall clock, which stands still: time is a step of the model, see `memories`."""
EARLIER = "2026-03-01T11:59:00Z"
"""The creation time of objects."""
_KEPT_OF_STATUS = (
    "id", "createToken", "cloudName", "identity", "attempt", "specHash", "account", "replacing",
    "former", "failedGreen", "round", "parts", "ending", "completionTime", "cleared",
)  # fmt: skip


class Known(NamedTuple):
    """The facts about an object that the model itself uses. Cloud ids are numbers; 0 is none."""

    name: str
    uid: str
    version: str
    image: str
    deleting: bool
    held: bool
    intent: CreateIntent | None
    is_open: bool
    id: int
    ids: frozenset[int]
    """All ids in status: a batch has one per part, a cluster also those of former resources."""
    serving: int
    """The former resource that serves until the one with `id` is Ready."""
    token: str
    recorded_uid: str
    recorded_organization: str
    adopt: str
    retry: str
    policy: str
    abandoned: bool
    stopped: bool
    replicas: int


def stored(raw: Mapping[str, JsonValue]) -> bytes:
    """Returns the object as text, with only what decisions depend on and with the version of its content."""
    metadata = {name: value for name, value in part(raw, "metadata").items() if name != "resourceVersion" and value}
    content = {**raw, "metadata": metadata, "status": kept(part(raw, "status"))}
    text = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    metadata["resourceVersion"] = version_of_text(text)
    return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)


def version_of_text(text: bytes) -> str:
    """Returns the resourceVersion of a text; equal texts have equal ones."""
    return str(int.from_bytes(blake2b(text, digest_size=7).digest(), "big"))


def kept(status: Mapping[str, JsonValue]) -> JsonObject:
    """Returns the fields of a status that decisions depend on."""
    return {name: value for name, value in status.items() if name in _KEPT_OF_STATUS}


def loaded(text: bytes) -> JsonObject:
    """Returns the object as JSON."""
    raw: JsonObject = orjson.loads(text)
    return raw


def merged(before: Mapping[str, JsonValue], patch: Mapping[str, JsonValue]) -> JsonObject:
    """Returns a document after a JSON merge patch (RFC 7386)."""
    after = {name: value for name, value in before.items() if patch.get(name, value) is not None}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            after[name] = merged(part(before, name), value)
        elif value is not None:
            after[name] = value
    return after


def changed(text: bytes, patch: Mapping[str, JsonValue]) -> bytes:
    """Returns the object after a merge patch."""
    return patched(text, orjson.dumps(patch))


@lru_cache(maxsize=100_000)
def patched(text: bytes, patch: bytes) -> bytes:
    """Returns the object after a serialized merge patch; a change of spec increments the generation."""
    before = loaded(text)
    after = merged(before, loaded(patch))
    if after.get("spec") != before.get("spec"):
        generation = part(before, "metadata").get("generation")
        assert isinstance(generation, int)
        after = merged(after, {"metadata": {"generation": generation + 1}})
    return stored(after)


def applied(kind: str, name: str, number: int, spec: Mapping[str, JsonValue]) -> bytes:
    """Returns a new object; `number` counts the objects of the world and makes its UID unique."""
    metadata: JsonObject = {
        "name": name, "namespace": NAMESPACE, "uid": uid_of(name, number), "generation": 1,
        "creationTimestamp": EARLIER,
    }  # fmt: skip
    return stored({"apiVersion": "gpurelay.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": dict(spec)})


def recording(text: bytes, name: str = "somebody-elses") -> bytes:
    """Returns the object after it has adopted resource 1, whose name in the cloud is `name`."""
    own = known(text)
    identity: JsonValue = {
        "installation": "cafe0", "namespace": NAMESPACE, "name": own.name, "uid": own.uid, "organization": "org-1",
    }  # fmt: skip
    intent: JsonObject = {
        "token": f"t{own.name}", "name": name, "attempt": 1, "specHash": "", "startedAt": MOMENT, "identity": identity,
    }  # fmt: skip
    noted: JsonObject = {CREATE_INTENT: orjson.dumps(intent).decode(), ADOPT_ID: id_of(1)}
    status: JsonObject = {
        "id": id_of(1), "cloudName": name, "createToken": f"t{own.name}", "attempt": 1, "identity": identity,
    }  # fmt: skip
    return changed(text, {"metadata": {"annotations": noted, "finalizers": [FINALIZER]}, "status": status})


def uid_of(name: str, number: int) -> str:
    """Returns a UID that ends with the object's name in hexadecimal.

    Like a real one it is hexadecimal: names in the cloud contain its first ten digits.
    """
    return f"{number:08x}-{ord(name):02x}"


def key_of(name: str, kind: str = KIND) -> ObjectKey:
    return ObjectKey(kind, NAMESPACE, name)


def id_of(number: int) -> str:
    """Returns the cloud id of the resource with this number."""
    return f"c{number}"


def number_of(cloud_id: str) -> int:
    return int(cloud_id[1:]) if cloud_id else 0


@lru_cache(maxsize=100_000)
def known(text: bytes) -> Known:
    """Reads the facts from an object's text; cached."""
    raw = loaded(text)
    metadata, spec, status = part(raw, "metadata"), part(raw, "spec"), part(raw, "status")
    annotations = part(metadata, "annotations")
    written = annotations.get(CREATE_INTENT)
    intent = CreateIntent.parse(written if isinstance(written, str) else None)
    assert intent is None or isinstance(intent, CreateIntent)
    token, rows = str(status.get("createToken") or ""), status.get("parts")
    parts = [str(part(row).get("batchId") or "") for row in rows] if isinstance(rows, list) else []
    told = status.get("former")
    former = [part(row) for row in told] if isinstance(told, list) else []
    old = [str(row.get("id")) for row in former]
    return Known(
        name=str(metadata.get("name")),
        uid=str(metadata.get("uid")),
        version=str(metadata.get("resourceVersion")),
        image=str(spec.get("image")),
        deleting="deletionTimestamp" in metadata,
        held=held(metadata),
        intent=intent,
        is_open=intent is not None and intent.token != token,
        id=number_of(str(status.get("id") or "")),
        ids=frozenset(map(number_of, (str(status.get("id") or ""), *parts, *old))) - {0},
        serving=next((number_of(cloud_id) for cloud_id, row in zip(old, former, strict=True) if "until" not in row), 0),
        token=token,
        recorded_uid=str(part(status, "identity").get("uid") or ""),
        recorded_organization=str(part(status, "identity").get("organization") or ""),
        adopt=str(annotations.get(ADOPT_ID) or ""),
        retry=str(annotations.get(RETRY_CREATE) or ""),
        policy=str(spec.get("deletionPolicy") or "Delete").replace("Discard", "Delete"),  # batches' word for it
        abandoned=annotations.get(ABANDON) == "true",
        stopped=spec.get("powerState") == "Stopped",
        replicas=int(str(spec.get("replicas") or 0)),
    )
