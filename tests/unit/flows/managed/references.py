"""SshKeys as the watch tells of them, and which of them an object was given."""

from pydantic import JsonValue

from relay_operator.api.meta import ObjectKey
from tests.unit.engine.apiserver import Json
from tests.unit.flows.managed.world import NAMESPACE, World

ADA, BOB = (ObjectKey("SshKey", NAMESPACE, name) for name in ("ada", "bob"))
READY: JsonValue = [{"type": "Ready", "status": "True", "reason": "Available"}]


def put(world: World, key: ObjectKey, version: int, cloud_id: str = "ssh-1", **changes: JsonValue) -> None:
    """A key as the watch tells of it."""
    status: Json = {"id": cloud_id, "observedGeneration": 1, "conditions": READY}
    metadata: Json = {"name": key.name, "namespace": NAMESPACE, "uid": key.name, "generation": 1}
    told: Json = {"metadata": metadata | {"resourceVersion": str(version)}, "spec": {}, "status": status}
    for part, fields in changes.items():
        known = told[part]
        assert isinstance(known, dict)
        assert isinstance(fields, dict)
        told[part] = known | fields
    world.cache.put(key, told)


def given(world: World) -> dict[str, str]:
    return {each.name: each.id for each in world.status().references or ()}
