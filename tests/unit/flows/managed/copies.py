"""Objects that a tool copies."""

import copy

from pydantic import JsonValue

from tests.unit.engine.apiserver import Json, part


def copy_of(raw: Json, **metadata: JsonValue) -> Json:
    """What a tool makes of an object that it read: everything but what the API server gives."""
    new = copy.deepcopy(raw)
    kept = {name: value for name, value in part(new, "metadata").items() if name not in {"uid", "resourceVersion"}}
    return {**new, "metadata": {**kept, **metadata}}
