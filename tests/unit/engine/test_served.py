"""Whether the CRDs that the API server serves keep what this release writes."""

import copy

import pytest
from pydantic import JsonValue

from relay_operator.api.definition import Definition
from relay_operator.api.meta import GROUP, VERSION
from relay_operator.crds.definitions import object_schema
from relay_operator.crds.needed import needed
from relay_operator.engine.served import ServedKinds, dropped
from relay_operator.kinds import KINDS
from tests.unit.engine.apiserver import Json, part

KIND = next(kind.definition for kind in KINDS if kind.name == "GpuPod")
SCHEMA = object_schema(KIND)
NEEDED = needed()[KIND.kind][1]


def _properties(schema: Json, *path: str) -> Json:
    for name in path:
        schema = part(part(schema, "properties"), name)
    return part(schema, "properties")


def _document(schema: Json, **told: JsonValue) -> Json:
    group: JsonValue = {"group": GROUP, "version": VERSION, "kind": "GpuPod", **told}
    other: JsonValue = {"type": "object", "x-kubernetes-group-version-kind": [{"group": "", "kind": "DeleteOptions"}]}
    own: JsonValue = {**schema, "x-kubernetes-group-version-kind": [group]}
    return {"components": {"schemas": {"a": other, "b": own, "c": {"type": "string"}}}}


def _known() -> ServedKinds:
    return ServedKinds(lambda: {"GpuPod": ("gpupods.gpurelay.dev", NEEDED)}, "apply them")


@pytest.mark.parametrize("definition", [kind.definition for kind in KINDS], ids=lambda definition: definition.kind)
def test_a_crd_of_this_release_keeps_everything(definition: Definition) -> None:
    schema, (_, fields) = object_schema(definition), needed()[definition.kind]
    assert list(dropped(fields, schema)) == []
    assert list(dropped(fields, {})) == list(dropped(schema, {})) == list(part(schema, "properties"))
    assert list(dropped(schema, fields)) == []


def test_every_field_that_would_be_dropped_is_found_wherever_it_is() -> None:
    served = copy.deepcopy(SCHEMA)
    del _properties(served, "status")["identity"]
    del _properties(served, "spec", "gpu")["count"]
    conditions = part(_properties(served, "status"), "conditions")
    del part(part(conditions, "items"), "properties")["reason"]
    assert set(dropped(NEEDED, served)) == {"status.identity", "spec.gpu.count", "status.conditions[].reason"}


def test_a_crd_that_keeps_all_it_is_given_drops_nothing() -> None:
    served = copy.deepcopy(SCHEMA)
    _properties(served)["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    _properties(served, "spec")["gpu"] = {"type": "object", "additionalProperties": True}
    assert list(dropped(NEEDED, served)) == []


def test_a_newer_crd_is_as_good() -> None:
    served = copy.deepcopy(SCHEMA)
    _properties(served, "status")["later"] = {"type": "string"}
    assert list(dropped(NEEDED, served)) == []


def test_what_is_told_names_the_fields_and_the_command_until_the_crd_keeps_all() -> None:
    known, old = _known(), copy.deepcopy(SCHEMA)
    for name in ("identity", "createToken", "cloudName", "attempt"):
        del _properties(old, "status")[name]
    known.learn(_document(old))
    told = known.outdated
    assert "gpupods.gpurelay.dev" in told
    assert "status.attempt, status.cloudName, status.createToken and 1 more" in told
    assert told.endswith("run: apply them")
    known.learn(_document(SCHEMA))
    assert known.outdated == ""


@pytest.mark.parametrize(
    "document",
    [{}, {"components": None}, {"components": {"schemas": []}}, _document({"type": "object"}, group="another.dev")],
    ids=["nothing", "no schemas", "another shape", "another group"],
)
def test_what_is_not_told_of_our_kinds_says_nothing_against_them(document: Json) -> None:
    known = _known()
    known.learn(document)
    assert known.outdated == ""
