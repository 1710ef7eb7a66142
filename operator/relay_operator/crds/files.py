"""Every generated file: its path and its content."""

from typing import Final

import yaml

from relay_operator.api.meta import GROUP
from relay_operator.crds import argocd
from relay_operator.crds.access import (
    Rule,
    for_cluster_accounts,
    for_people,
    for_the_end_of_namespaces,
    in_own_namespace,
    in_watched_namespaces,
)
from relay_operator.crds.definitions import DEFINITIONS, custom_resource_definition, object_schema
from relay_operator.crds.needed import FILE, as_json
from relay_operator.crds.reference import conditions_page, kind_page, rights_page, settings_page
from relay_operator.crds.structural import Schema, as_object
from relay_operator.kinds import KINDS

_NOTICE: Final = "Generated from the models by `make generate`; edits here are lost."
_CHART: Final = "charts/relay-operator/templates"
_ARGOCD: Final = "charts/relay-operator/argocd"
_NEEDED: Final = f"operator/relay_operator/crds/{FILE}"
_OPERATORS_RIGHTS: Final = (
    ("watched", "In watched namespaces", in_watched_namespaces(DEFINITIONS)),
    ("ending", "In all namespaces, if `watchNamespaces` names some", for_the_end_of_namespaces(DEFINITIONS)),
    ("clusterAccounts", "Outside of namespaces", for_cluster_accounts(DEFINITIONS)),
    ("own", "In its own namespace", in_own_namespace()),
)
"""The name of each template, where its rights hold, and the rights."""


def generated_files() -> dict[str, str]:
    """Text by path below the repository's root, in a stable order."""
    files: dict[str, str] = {}
    for definition in DEFINITIONS:
        crd = custom_resource_definition(definition)
        name = f"{GROUP}_{definition.plural}.yaml"
        files[f"crds/{name}"] = f"# {_NOTICE}\n{_yaml(crd)}"
        files[f"{_CHART}/crds/{name}"] = _chart_crd(crd)
        files[f"docs/reference/{definition.singular}.md"] = kind_page(definition)
    own = (kind.definition for kind in KINDS)
    files[_NEEDED] = as_json((each.kind, each.plural, object_schema(each)) for each in own)
    files[f"{_CHART}/_rules.tpl"] = _rules()
    files["docs/reference/conditions.md"] = conditions_page()
    files["docs/reference/rights.md"] = rights_page((where, rules) for _, where, rules in _OPERATORS_RIGHTS)
    files["docs/reference/settings.md"] = settings_page()
    files[f"{_ARGOCD}/health-values.yaml"] = f"# {_NOTICE}\n{argocd.as_values(DEFINITIONS)}"
    files[f"{_ARGOCD}/argocd-cm.yaml"] = f"# {_NOTICE}\n{argocd.as_config_map(DEFINITIONS)}"
    return files


GENERATED_FOLDERS: Final = ("crds", f"{_CHART}/crds", _ARGOCD, "docs/reference")
"""Folders that contain generated files only."""


def _yaml(document: Schema | list[Schema]) -> str:
    return yaml.safe_dump(document, sort_keys=False, width=120)


def _chart_crd(crd: Schema) -> str:
    """The CRD as a template, upgraded with the chart; kept when the chart goes, or all objects would go with it."""
    name = as_object(crd["metadata"])["name"]
    kept: Schema = {"name": name, "annotations": {"helm.sh/resource-policy": "keep"}, "labels": "LABELS"}
    text = _yaml({**crd, "metadata": kept}).replace("{{", '{{ "{{" }}')
    labels = '\n    {{- include "relay-operator.labels" . | nindent 4 }}'
    text = text.replace(" LABELS", labels, 1)
    return f"{{{{- /* {_NOTICE} */ -}}}}\n{{{{- if .Values.crds.install }}}}\n{text}{{{{- end }}}}\n"


def _rules() -> str:
    sections = (
        *((name, rules) for name, _, rules in _OPERATORS_RIGHTS),
        ("viewers", for_people(DEFINITIONS, editing=False)),
        ("editors", for_people(DEFINITIONS, editing=True)),
    )
    bodies = [
        f'{{{{- define "relay-operator.rules.{name}" -}}}}\n{"".join(map(_rule, rules))}{{{{- end }}}}\n'
        for name, rules in sections
    ]
    return "\n".join([f"{{{{- /* {_NOTICE} */ -}}}}", *bodies])


def _rule(rule: Rule) -> str:
    return f"# {rule.why}\n{_yaml([rule.as_json()])}"
