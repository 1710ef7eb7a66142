"""Reference pages from the schemas, as Markdown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from relay_operator.api.definition import Definition
from relay_operator.api.meta import API_VERSION, CATEGORY
from relay_operator.api.reasons import REASONS, TYPES
from relay_operator.api.schema import VALIDATIONS
from relay_operator.crds.access import LEASE_NAME_TEMPLATE, Rule
from relay_operator.crds.definitions import spec_schema
from relay_operator.crds.structural import Schema, as_object, structural
from relay_operator.settings import Settings, documented

_NOTICE: Final = "<!-- Generated from the models by `make generate`; edits here are lost. -->\n"
_BOUNDS: Final = (
    ("minimum", "from {}"),
    ("maximum", "to {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("minProperties", "at least {} entries"),
    ("maxProperties", "at most {} entries"),
    ("pattern", "pattern `{}`"),
)
_READERS: Final = (
    "`kubectl wait --for=condition=Ready`, `helm --wait` (of Helm 4), Flux and, with our "
    "[health checks](../gitops.md#argo-cd), Argo CD read these as they read those of Kubernetes' own kinds."
)
_CHART_SETS: Final = (
    "The operator reads them from its environment, once; `relay-operator settings` prints them as well. Lists are "
    "separated by commas. The chart's value `settings` sets them: `pollSettledSeconds: 60` becomes "
    "`RELAY_POLL_SETTLED_SECONDS=60`. Settings that it refuses there have a [value of "
    "their own](../../charts/relay-operator/README.md), or are set by the chart itself."
)
_RIGHTS: Final = (
    "The rights of the operator's ServiceAccount. If `watchNamespaces` names some, the operator may also get and patch "
    "the Secrets that `accountSecretNames` names, in all namespaces: a namespace that is deleted loses its Role before "
    "its objects can be released. Then Events about ClusterCloudAccounts, which Kubernetes keeps in the namespace "
    "`default`, are written only if it is watched. The chart's `admissionPolicy` bounds what may be written into "
    "Secrets, ConfigMaps and Pods."
)
_QUIET: Final = {("minLength", 1), ("minItems", 1), ("minProperties", 1)}


@dataclass(frozen=True, slots=True)
class _Row:
    path: str
    type: str
    bounds: str
    meaning: str


def kind_page(definition: Definition) -> str:
    """The page of one kind: every field with its bounds, default and meaning."""
    spec, status = spec_schema(definition), structural(definition.status)
    scope = "namespaced" if definition.namespaced else "cluster-scoped"
    names = f"`kubectl get {definition.plural}` or `{definition.short_name}`; one of `kubectl get {CATEGORY}`"
    parts = [
        _NOTICE,
        f"# {definition.kind}\n",
        f"{definition.summary}\n",
        f"`{API_VERSION}`, {scope}, {names}.\n",
        "## spec\n",
        _table(_rows(spec, "")),
        *_rule_section(spec, definition.rules),
        "## status\n",
        "Written by the operator alone. [What the conditions and reasons mean](conditions.md).\n",
        _table(_rows(status, "")),
    ]
    return "\n".join(parts)


def conditions_page() -> str:
    """The page of every condition type and reason."""
    types = [
        f"| `{kind}` | {doc.polarity} | {_cell(doc.present)} | {_cell(doc.meaning)} |" for kind, doc in TYPES.items()
    ]
    reasons = [f"| `{reason}` | {_cell(doc.appears)} | {doc.resolver} |" for reason, doc in sorted(REASONS.items())]
    return "\n".join(
        [
            _NOTICE,
            "# Conditions and reasons\n",
            f"{_READERS}\n",
            "## Types\n",
            "| type | polarity | present | meaning |\n|---|---|---|---|",
            *types,
            "\n## Reasons\n",
            "| reason | when it appears | who can resolve it |\n|---|---|---|",
            *reasons,
            "",
        ]
    )


def rights_page(sections: Iterable[tuple[str, Iterable[Rule]]]) -> str:
    """The page of every right of the operator, by where it holds."""
    parts = [_NOTICE, "# Rights\n", f"{_RIGHTS}\n"]
    for where, rules in sections:
        parts += [f"## {where}\n", "| what | rights | why |\n|---|---|---|", *map(_right, rules), ""]
    return "\n".join(parts)


def _right(rule: Rule) -> str:
    named = f", named {' or '.join(_name(name) for name in rule.names)}" if rule.names else ""
    return f"| `{'`, `'.join(rule.resources)}`{named} | {', '.join(rule.verbs)} | {_cell(rule.why)} |"


def _name(name: str) -> str:
    """The name in a rule; of one that the chart fills in, the value, and its default for those without the chart."""
    if name != LEASE_NAME_TEMPLATE:
        return f"`{name}`"
    return f"by the value `leaderElection.leaseName` (`{Settings.model_fields['lease_name'].default}`)"


def settings_page() -> str:
    """The page of every setting of the operator."""
    rows = [f"| `{name}` | {_cell(default)} | {_cell(meaning)} |" for name, default, meaning in documented()]
    return "\n".join(
        [
            _NOTICE,
            "# Settings\n",
            f"{_CHART_SETS}\n",
            "| variable | default | meaning |\n|---|---|---|",
            *rows,
            "",
        ]
    )


def _rows(schema: Schema, prefix: str) -> Iterator[_Row]:
    required = schema.get("required")
    needed = required if isinstance(required, list) else []
    for name, value in as_object(schema.get("properties", {})).items():
        field = as_object(value)
        path = f"{prefix}{name}"
        meaning = str(field.get("description", ""))
        yield _Row(path, _type(field), _bounds(field), f"Required. {meaning}" if name in needed else meaning)
        if "properties" in field:
            yield from _rows(field, f"{path}.")
        elif "items" in field:
            yield from _rows(as_object(field["items"]), f"{path}[].")


def _type(field: Schema) -> str:
    if field.get("format") == "date-time":
        return "time"
    if field.get("type") == "array":
        return f"list of {_type(as_object(field['items']))}"
    if "additionalProperties" in field:
        return f"map to {_type(as_object(field['additionalProperties']))}"
    return str(field["type"])


def _bounds(field: Schema) -> str:
    words = field.get("enum")
    if isinstance(words, list):
        return "one of " + ", ".join(f"`{word}`" for word in words)
    told = [text.format(field[key]) for key, text in _BOUNDS if key in field and (key, field[key]) not in _QUIET]
    inner = field.get("items", field.get("additionalProperties"))
    if isinstance(inner, dict) and "properties" not in inner and _bounds(inner):
        told.append(f"each {_bounds(inner)}")
    return ", ".join(told)


def _table(rows: Iterator[_Row]) -> str:
    lines = [f"| `{row.path}` | {row.type} | {_cell(row.bounds)} | {_cell(row.meaning)} |" for row in rows]
    return "\n".join(["| field | type | bounds | meaning |", "|---|---|---|---|", *lines, ""])


def _rule_section(schema: Schema, of_the_object: Iterable[tuple[str, str]]) -> list[str]:
    sentences = [*_sentences(schema, ""), *(f"- the object: {message}" for _, message in of_the_object)]
    return ["The API server also refuses, with these words:\n", *sentences, ""] if sentences else []


def _sentences(schema: Schema, path: str) -> Iterator[str]:
    rules = schema.get(VALIDATIONS, [])
    for rule in rules if isinstance(rules, list) else []:
        yield f"- {f'`{path}`' if path else 'the whole'}: {as_object(rule)['message']}"
    for name, value in as_object(schema.get("properties", {})).items():
        yield from _sentences(as_object(value), f"{path}.{name}".lstrip("."))
    if "items" in schema:
        yield from _sentences(as_object(schema["items"]), f"{path}[]")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
