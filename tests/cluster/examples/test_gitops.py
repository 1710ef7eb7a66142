"""What examples/gitops shows fits together: what waits names what it waits for, and our objects are accepted."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.cluster.examples.test_examples import kubectl
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kube import Manifest
    from tests.support.kubectl import Kubectl

__all__ = ["kubectl"]
FOLDER = REPOSITORY / "examples" / "gitops"
WAVE = "argocd.argoproj.io/sync-wave"
STAGES = ("secret", "account", "workloads")
"""In the order in which each waits for the one before."""


def documents(path: Path) -> list[Manifest]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def stage(name: str) -> list[Manifest]:
    return [one for path in sorted((FOLDER / name).glob("*.yaml")) for one in documents(path)]


def flux() -> dict[str, dict[str, Any]]:
    """Kind/name to spec of all that Flux is given."""
    return {f"{one['kind']}/{one['metadata']['name']}": one.get("spec", {}) for one in documents(FOLDER / "flux.yaml")}


@pytest.mark.parametrize("name", STAGES[1:])
async def test_our_objects_are_accepted_strictly_by_the_api_server(kubectl: Kubectl, name: str) -> None:
    for one in stage(name):
        text = yaml.safe_dump(one)
        await kubectl("apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text)


def test_each_kustomization_of_flux_waits_for_the_one_before() -> None:
    given = flux()
    stages = [f"gpu-{name}" for name in STAGES]
    for before, name in zip([None, *stages], stages, strict=False):
        spec = given[f"Kustomization/{name}"]
        assert spec["wait"] is True
        assert [one["name"] for one in spec.get("dependsOn", [])] == ([before] if before else [])
        assert list((REPOSITORY / spec["path"]).glob("*.yaml"))
        assert "{kind}/{name}".format(**spec["sourceRef"]) in given
        assert f"Namespace/{spec['targetNamespace']}" in given  # Flux does not create it
    assert "{kind}/{name}".format(**given["HelmRelease/relay-operator"]["chartRef"]) in given


def test_sync_waves_of_argo_cd_are_in_the_same_order() -> None:
    waves = [{one["metadata"]["annotations"][WAVE] for one in stage(name)} for name in STAGES]
    assert waves == [{"0"}, {"1"}, {"2"}]


def test_argo_cd_is_given_these_folders_and_no_others() -> None:
    (application,) = (one for one in documents(FOLDER / "argocd.yaml") if one["metadata"]["name"] == "gpu-team-a")
    source = application["spec"]["source"]
    assert (REPOSITORY / source["path"]) == FOLDER
    named = re.fullmatch(r"\{(.*)\}/\*\.yaml", source["directory"]["include"])
    assert named is not None
    assert tuple(named[1].split(",")) == STAGES


def test_the_account_finds_its_secret_and_the_workloads_their_account() -> None:
    (external,), (account,) = stage("secret"), stage("account")
    ref = account["spec"]["apiKeySecretRef"]
    assert (external["spec"]["target"]["name"], external["spec"]["data"][0]["secretKey"]) == (ref["name"], ref["key"])
    assert account["metadata"]["name"] == "default"
    assert not [one for one in stage("workloads") if "accountRef" in one["spec"]]


def test_values_of_the_operator_are_values_of_the_chart() -> None:
    """Flux and Argo CD get the same, and the chart knows them."""
    (application,) = (one for one in documents(FOLDER / "argocd.yaml") if one["metadata"]["name"] == "relay-operator")
    values = application["spec"]["source"]["helm"]["valuesObject"]
    assert values == flux()["HelmRelease/relay-operator"]["values"]
    known = yaml.safe_load((REPOSITORY / "charts" / "relay-operator" / "values.yaml").read_text())
    for name, inner in values.items():
        assert inner.keys() <= known[name].keys()
