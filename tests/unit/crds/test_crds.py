"""The CRDs keep the rules that hold for every kind, and the generated files are those of the models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from relay_operator.crds import DEFINITIONS, crds_as_yaml, custom_resource_definition
from relay_operator.crds.__main__ import main
from relay_operator.crds.access import for_cluster_accounts, for_people, in_own_namespace, in_watched_namespaces
from relay_operator.crds.files import generated_files
from relay_operator.kinds import KINDS
from tests.support.chart import definitions, objects_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from relay_operator.api.definition import Definition

ROOT = Path(__file__).resolve().parents[3]
SCHEMA_KEYS = {"type", "format", "description", "enum", "default", "properties", "required", "items"} | {
    "additionalProperties",
    *(f"{end}{what}" for end in ("min", "max") for what in ("imum", "Length", "Items", "Properties")),
    "pattern",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
    "x-kubernetes-preserve-unknown-fields",
}


def nodes(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema inside, with its path."""
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


def all_nodes(definition: Definition) -> list[tuple[str, dict[str, Any]]]:
    """Every schema of spec and status."""
    crd: dict[str, Any] = custom_resource_definition(definition)
    whole = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return [*nodes(whole["spec"], "spec"), *nodes(whole["status"], "status")]


each_kind = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)

OF_THE_CLOUD = {
    "spec.auth": {"none", "api_key", "aws_sigv4", "gcp_oauth"},
    "spec.provider": {"azure_openai", "bedrock", "vertex", "openai_compatible"},
    "spec.transport": {"direct", "tunnel", "privatelink"},
    "spec.nativeFamilies[]": {"chat_completions", "messages"},
    "spec.engine": {"vllm", "sglang", "trtllm"},
    "spec.replicaRuntime": {"", "vm", "pod"},
    "spec.rollout.role": {"", "green"},
    "spec.rollout.strategy": {"blue_green", "rolling"},
    "spec.authType": {"basic", "aws_ecr", "gcp_gcr"},
    "spec.role": {"owner", "admin", "member", "viewer"},
    "spec.status": {"online", "draining", "maintenance", "removed"},
}


@each_kind
def test_every_field_has_a_type_and_bounds(definition: Definition) -> None:
    for path, node in all_nodes(definition):
        match node.get("type"):
            case "string":
                bounded = "maxLength" in node or "enum" in node or node.get("format") == "date-time"
            case "integer" if path.startswith("spec"):
                bounded = "minimum" in node and "maximum" in node
            case "array":
                bounded = "maxItems" in node and "x-kubernetes-list-type" in node
            case "object":
                kinds = ("properties", "maxProperties", "x-kubernetes-preserve-unknown-fields")
                bounded = sum(kind in node for kind in kinds) == 1
            case "integer" | "boolean":
                bounded = True
            case _:
                bounded = False  # no number: floats do not survive a round trip
        assert bounded, f"{path}: {node}"


@each_kind
def test_every_key_of_a_map_is_bounded_by_a_rule(definition: Definition) -> None:
    for path, node in all_nodes(definition):
        if "additionalProperties" in node:
            texts = [one["rule"] for one in node.get("x-kubernetes-validations", ())]
            assert any(text.startswith("self.all(key, ") and "key.size() <= " in text for text in texts), path


@each_kind
def test_a_schema_says_nothing_that_the_api_server_ignores_or_forbids(definition: Definition) -> None:
    for path, node in all_nodes(definition):
        assert set(node) <= SCHEMA_KEYS, path


@each_kind
def test_every_field_is_explained(definition: Definition) -> None:
    for path, node in all_nodes(definition):
        if not path.endswith("[]"):
            assert node.get("description", "").strip(), path


@each_kind
def test_the_only_defaults_are_that_nothing_was_observed_and_a_replica_of_a_cluster(definition: Definition) -> None:
    defaults = {path: node["default"] for path, node in all_nodes(definition) if "default" in node}
    replicas = {"spec.replicas": 1} if definition.kind == "GpuCluster" else {}
    assert defaults == {"status": {"observedGeneration": -1}, "status.observedGeneration": -1} | replicas


@each_kind
def test_words_to_choose_from_are_in_camel_case_unless_they_are_the_clouds(definition: Definition) -> None:
    for path, node in all_nodes(definition):
        for word in node.get("enum", []):
            assert word in OF_THE_CLOUD.get(path, ()) or re.fullmatch(r"[A-Z][A-Za-z]*", word), path


@each_kind
def test_conditions_are_a_map_by_type(definition: Definition) -> None:
    conditions = dict(all_nodes(definition))["status.conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert conditions["items"]["required"] == ["lastTransitionTime", "reason", "status", "type"]


@each_kind
def test_a_column_shows_as_an_age_only_what_has_passed(definition: Definition) -> None:
    """What is to come shows as `<invalid>` in a column of the type date."""
    dates = {column.path for column in definition.columns if column.type == "date"}
    assert dates <= {
        ".metadata.creationTimestamp",
        ".status.lastScheduleTime",
        ".status.lastSuccessfulTime",
        ".status.lastUsedAt",
        '.status.conditions[?(@.type=="Stalled")].lastTransitionTime',
    }


@each_kind
def test_a_column_shows_why_an_object_is_stalled_while_it_stays_ready(definition: Definition) -> None:
    crd: dict[str, Any] = custom_resource_definition(definition)
    *_, last = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    path = '.status.conditions[?(@.type=="Stalled")].reason'
    assert last == {"name": "Stalled", "type": "string", "jsonPath": path, "priority": 1}


def test_only_clusters_scale() -> None:
    scaled = {definition.kind for definition in DEFINITIONS if definition.scaled_by}
    assert scaled == {"GpuCluster", "ServingDeployment"}
    crds: dict[str, dict[str, Any]] = {one.kind: custom_resource_definition(one) for one in DEFINITIONS}
    version = crds["GpuCluster"]["spec"]["versions"][0]
    assert version["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


def test_a_shared_account_may_list_the_kinds_that_use_accounts() -> None:
    (shared,) = (one for one in DEFINITIONS if one.kind == "ClusterCloudAccount")
    field = dict(all_nodes(shared))["spec.allowedKinds"]
    assert field["items"]["enum"] == [kind.name for kind in KINDS if kind.uses_account]
    assert field["description"].endswith("Default: GpuCluster, GpuPod, GpuVm, InferenceBatch.")


def test_every_kind_is_found_by_its_short_name_and_category() -> None:
    names = {one.kind: (one.short_name, custom_resource_definition(one)) for one in DEFINITIONS}
    assert {kind: short for kind, (short, _) in names.items()} == {
        "CloudAccount": "cacct",
        "ClusterCloudAccount": "ccacct",
        "GpuPod": "gpod",
        "GpuCluster": "gcl",
        "GpuVm": "gvm",
        "SshKey": "sshk",
        "RegistryCredential": "rcred",
        "ApiKey": "akey",
        "GpuModel": "gmodel",
        "OrganizationMember": "omember",
        "VmSnapshot": "vsnap",
        "InferenceBackend": "ibackend",
        "ServingDeployment": "sdep",
        "RunnerPool": "rpool",
        "ProvisioningToken": "ptoken",
        "ProviderNode": "pnode",
        "NodeReservation": "nres",
        "InferenceBatch": "ibatch",
        "InferenceBatchSchedule": "ibsched",
    }
    for _, crd in names.values():
        assert isinstance(crd["spec"], dict)
        assert "gpurelay" in str(crd["spec"]["names"])


def test_rules_name_everything_and_never_list_secrets() -> None:
    rules = [
        *in_watched_namespaces(DEFINITIONS),
        *for_cluster_accounts(DEFINITIONS),
        *in_own_namespace(),
        *for_people(DEFINITIONS, editing=False),
        *for_people(DEFINITIONS, editing=True),
    ]
    for rule in rules:
        assert "*" not in (rule.group, *rule.resources, *rule.verbs, *rule.names)
        if "secrets" in rule.resources:
            assert set(rule.verbs) == {"get", "create", "patch"}


def test_generated_files_are_those_of_the_models() -> None:
    for name, text in generated_files().items():
        assert (ROOT / name).read_text() == text, f"{name} differs: run `make generate`"


def test_printed_crds_are_those_in_the_folder() -> None:
    printed = {one["metadata"]["name"]: one for one in objects_in(crds_as_yaml())}
    assert printed == {one["metadata"]["name"]: one for one in definitions()}


def test_the_check_names_what_drifted_and_writing_repairs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pyproject.toml").touch()

    def generate(*options: str) -> int:
        return main(["--root", str(tmp_path), *options])

    assert generate() == 0
    assert generate("--check") == 0
    (tmp_path / "crds/gpurelay.dev_gpupods.yaml").write_text("edited")
    (tmp_path / "docs/reference/conditions.md").unlink()
    (tmp_path / "crds/stray.yaml").touch()
    assert generate("--check") == 1
    assert capsys.readouterr().err.splitlines() == [
        "crds/gpurelay.dev_gpupods.yaml differs: run `make generate` and commit the result",
        "docs/reference/conditions.md is missing: run `make generate` and commit the result",
        "crds/stray.yaml belongs to no kind: run `make generate` and commit the result",
    ]
    assert generate() == 0
    assert generate("--check") == 0
