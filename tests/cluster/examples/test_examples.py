"""What examples/ shows is what the API server takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.kubectl import Kubectl
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.controlplane import Cluster

_FOLDER = REPOSITORY / "examples"
EXAMPLES = {
    str(path.relative_to(_FOLDER).with_suffix("")): path.read_text()
    for path in _FOLDER.rglob("*.yaml")
    if "gitops" not in path.parts
}


@pytest.fixture
def kubectl(cluster: Cluster, operator_kubeconfig: Path) -> Kubectl:
    """kubectl where the kinds are installed."""
    assert operator_kubeconfig.exists()
    return Kubectl(cluster.kubeconfig)


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"autoscaling/keda"}))
async def test_an_example_is_accepted_strictly_by_the_api_server(kubectl: Kubectl, name: str) -> None:
    text = EXAMPLES[name]
    said = await kubectl("apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text)
    assert said.count("created (server dry run)") == len([one for one in yaml.safe_load_all(text) if one])


def test_an_autoscaler_of_either_kind_scales_the_cluster_of_the_examples_within_what_it_may_have() -> None:
    """KEDA's kind is not served here."""
    (cluster,) = yaml.safe_load_all(EXAMPLES["gpucluster"])
    (hpa,), (keda,) = (list(yaml.safe_load_all(EXAMPLES[f"autoscaling/{name}"])) for name in ("hpa", "keda"))
    target = {"apiVersion": cluster["apiVersion"], "kind": cluster["kind"], "name": cluster["metadata"]["name"]}
    assert hpa["spec"]["scaleTargetRef"] == keda["spec"]["scaleTargetRef"] == target
    assert (hpa["spec"]["minReplicas"], keda["spec"]["minReplicaCount"]) == (1, 1)
    assert [one["external"]["target"]["type"] for one in hpa["spec"]["metrics"]] == ["AverageValue"]
    assert [one["metricType"] for one in keda["spec"]["triggers"]] == ["AverageValue"]


def test_applying_the_folder_again_leaves_the_key_alone() -> None:
    kinds = {one["kind"] for name, text in EXAMPLES.items() if "/" not in name for one in yaml.safe_load_all(text)}
    assert "CloudAccount" in kinds
    assert "Secret" not in kinds


def test_examples_go_to_the_cloud_that_the_operator_was_installed_for() -> None:
    assert "Url" not in EXAMPLES["account"].replace("Without baseUrl and inferenceUrl", "")


def test_the_readme_of_the_examples_tells_of_each() -> None:
    told = set(re.findall(r"\]\(([\w/-]+)\.yaml\)", (_FOLDER / "README.md").read_text()))
    assert told == set(EXAMPLES)
