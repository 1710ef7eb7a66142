"""Objects as the watch tells of them to the cache."""

from pydantic import JsonValue

from relay_operator.api import meta
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from tests.unit.engine.apiserver import Json

KEY, OTHER = (ObjectKey("GpuPod", "team-a", name) for name in ("train", "other"))
OWN, SHARED = ObjectKey("CloudAccount", "team-a", "default"), ObjectKey("ClusterCloudAccount", "", "default")
INTENT = '{"token":"t1","name":"n","attempt":1,"spec_hash":"","started_at":"2026-03-01T12:00:00Z"%s}'


def raw(version: int = 1, **changes: JsonValue) -> Json:
    """An object; changes by section: metadata, spec, status."""
    metadata: Json = {"name": "train", "uid": "u1", "generation": 1, "resourceVersion": str(version)}
    given = changes.get("metadata")
    return {"spec": {}, "status": {}, **changes, "metadata": metadata | (given if isinstance(given, dict) else {})}


def annotated(**annotations: JsonValue) -> Json:
    return {"annotations": {f"{meta.ANNOTATION_PREFIX}{name.replace('_', '-')}": v for name, v in annotations.items()}}


OPEN, BROKEN = annotated(create_intent=INTENT % ""), annotated(create_intent="{")


def users(cache: Cache, account: ObjectKey) -> set[str]:
    return {key.name for key, _ in cache.users(account)}
