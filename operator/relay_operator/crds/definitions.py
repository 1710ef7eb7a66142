"""The CRD of each kind."""

from typing import Final

from pydantic import JsonValue

from relay_operator.api.cloudaccount import ClusterCloudAccountSpec
from relay_operator.api.definition import Column, Definition
from relay_operator.api.gpumodel import DEFINITION as GPU_MODEL
from relay_operator.api.meta import CATEGORY, GROUP, VERSION
from relay_operator.api.schema import field_rules
from relay_operator.crds.structural import Schema, as_object, structural
from relay_operator.kinds import KINDS
from relay_operator.kinds.gpucluster import GpuClusterSpec

DEFINITIONS: Final = (*(kind.definition for kind in KINDS), GPU_MODEL)
NEVER_OBSERVED: Final = -1
"""`status.observedGeneration` before the operator has seen an object, so that no tool takes the object for ready."""


def custom_resource_definition(definition: Definition) -> Schema:
    """The CRD of a kind."""
    version: Schema = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [_column(column) for column in definition.printed],
        "schema": {"openAPIV3Schema": object_schema(definition)},
        "subresources": _subresources(definition),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{definition.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": definition.singular,
                "shortNames": [definition.short_name],
                "categories": [CATEGORY],
            },
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [version],
        },
    }


def object_schema(definition: Definition) -> Schema:
    """The schema of a whole object."""
    properties: Schema = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": spec_schema(definition),
        "status": _status(definition),
    }
    schema: Schema = {"type": "object", "description": definition.summary, "required": ["spec"]}
    if definition.rules:
        schema |= field_rules(*definition.rules)
    return schema | {"properties": properties}


def spec_schema(definition: Definition) -> Schema:
    """The schema of a spec; `allowedKinds` lists the kinds of `KINDS`, which models do not know."""
    schema = structural(definition.spec)
    if definition.spec is GpuClusterSpec:
        # Autoscalers read an absent number as 0, which switches them off.
        as_object(as_object(schema["properties"])["replicas"])["default"] = 1
    if definition.spec is ClusterCloudAccountSpec:
        listed = as_object(as_object(schema["properties"])["allowedKinds"])
        words: list[JsonValue] = [kind.name for kind in KINDS if kind.uses_account]
        listed["items"] = {"type": "string", "enum": words}
        by_default = ", ".join(kind.name for kind in KINDS if kind.shared_by_default)
        listed["description"] = f"{listed['description']} Default: {by_default}."
    return schema


def _status(definition: Definition) -> Schema:
    schema = structural(definition.status)
    observed = as_object(as_object(schema["properties"])["observedGeneration"])
    observed["default"] = NEVER_OBSERVED
    schema["default"] = {"observedGeneration": NEVER_OBSERVED}
    return schema


def _column(column: Column) -> JsonValue:
    shown: Schema = {"name": column.name, "type": column.type, "jsonPath": column.path}
    return shown | {"priority": column.priority} if column.priority else shown


def _subresources(definition: Definition) -> Schema:
    subresources: Schema = {"status": {}}
    if definition.scaled_by:
        subresources["scale"] = {
            "specReplicasPath": definition.scaled_by,
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return subresources
