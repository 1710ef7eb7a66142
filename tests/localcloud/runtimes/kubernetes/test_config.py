"""`--runtime-config` and `--cluster`, and what is said of a document that makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from relay_localcloud.capacity.catalog import CPU_SIZES, EVERY_COUNT, GPU_MODELS, CpuSize
from relay_localcloud.runtimes.kubernetes.config import models, read, sizes, table
from relay_localcloud.runtimes.kubernetes.nodes import Gpu
from relay_localcloud.runtimes.kubernetes.opening import _terms
from relay_localcloud.runtimes.runtime import Unusable

H100 = {"id": "h100", "nodeLabels": {"product": "H100"}, "pricePerHourCents": 300}


def written(folder: Path, **document: Any) -> Path:
    """A document with one model."""
    path = folder / "runtime.yaml"
    path.write_text(yaml.safe_dump({"gpuModels": [H100], **document}))
    return path


def test_without_clusters_it_is_the_one_that_the_cloud_runs_in(tmp_path: Path) -> None:
    (cluster,) = read(written(tmp_path), {}).clusters
    assert (cluster.name, cluster.kubeconfig, cluster.storage_class) == ("cluster", None, None)


def test_a_cluster_of_the_command_line_is_the_one_of_the_document_with_another_kubeconfig(tmp_path: Path) -> None:
    path = written(tmp_path, clusters=[{"name": "eu", "kubeconfig": "eu.kubeconfig", "storageClass": "fast"}])
    (said,) = read(path, {}).clusters
    assert said.kubeconfig == tmp_path / "eu.kubeconfig"
    (cluster,) = read(path, {"eu": Path("here")}).clusters
    assert (cluster.kubeconfig, cluster.storage_class) == (Path("here"), "fast")
    (alone,) = read(written(tmp_path), {"us": Path("there")}).clusters
    assert (alone.name, alone.kubeconfig) == ("us", Path("there"))


def test_images_that_are_on_a_node_are_pulled_again_unless_the_document_says_otherwise(tmp_path: Path) -> None:
    us = {"name": "us", "kubeconfig": "us.kubeconfig", "imagePullPolicy": "IfNotPresent"}
    config = read(written(tmp_path, clusters=[{"name": "eu"}, us]), {})
    assert [_terms(config, each, "i-1").pull_policy for each in config.clusters] == ["Always", "IfNotPresent"]


def test_nodes_of_a_model_have_the_labels_of_both(tmp_path: Path) -> None:
    config = read(written(tmp_path, clusters=[{"name": "eu", "nodeSelector": {"pool": "ours"}}]), {})
    assert table(config, config.clusters[0]) == [Gpu("h100", {"pool": "ours", "product": "H100"}, "nvidia.com/gpu")]


def test_models_are_sold_at_the_prices_of_the_document(tmp_path: Path) -> None:
    other = {"id": "mi300x", "memoryGb": 192, "nodeLabels": {"amd": "1"}, "resource": "amd.com/gpu"}
    config = read(written(tmp_path, gpuModels=[H100, {**other, "pricePerHourCents": 199}]), {})
    built_in, own = models(config)
    assert (built_in.name, built_in.memory_gb, built_in.price_per_hour_cents) == (GPU_MODELS["h100"].name, 80, 300)
    assert (own.id, own.name, own.memory_gb, own.price_per_hour_cents) == ("mi300x", "mi300x", 192, 199)


def test_gpus_that_are_passed_through_to_vms_are_in_no_container(tmp_path: Path) -> None:
    passed = {**H100, "id": "a100", "resource": "nvidia.com/GA100_A100", "passthrough": True}
    config = read(written(tmp_path, gpuModels=[H100, passed]), {})
    assert [(each.vm_tiles, each.in_containers) for each in models(config)] == [((), True), (EVERY_COUNT, False)]


def test_sizes_without_gpus_are_those_of_the_document_or_the_built_in_ones(tmp_path: Path) -> None:
    own = {"resourceSize": "tiny", "vcpu": 1, "ramMb": 512, "pricePerHourCents": 1}
    assert sizes(read(written(tmp_path, cpuSizes=[own]), {})) == [CpuSize("tiny", 1, 512, 1)]
    assert sizes(read(written(tmp_path), {})) == list(CPU_SIZES.values())


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"gpuModels": []}, "gpuModels: "),
        ({"gpuModels": [{**H100, "nodeLabels": {}}]}, "gpuModels.0.nodeLabels: "),
        ({"gpuModels": [{**H100, "prices": 1}]}, "gpuModels.0.prices: "),
        ({"clusters": [{"name": "eu"}, {"name": "us"}]}, "a kubeconfig for each cluster but the one"),
        ({"clusters": ["eu"]}, "clusters.0: "),
        ({"clusters": [{"name": "eu", "imagePullPolicy": "Never"}]}, "clusters.0.imagePullPolicy: "),
        ({"clusters": [{"name": ["eu"]}]}, "clusters.0.name: "),
        ({"cpuSizes": []}, "cpuSizes: "),
        ({"vmImages": {"ubuntu": "ubuntu:24.04"}}, "vmImages.ubuntu: "),
        ({"cpuSizes": [{"resourceSize": "tiny", "vcpu": 0.5}]}, "cpuSizes.0.vcpu: "),
    ],
)
def test_what_makes_no_sense_is_said_with_where_it_is(tmp_path: Path, document: dict[str, Any], words: str) -> None:
    with pytest.raises(Unusable, match=words):
        read(written(tmp_path, **document), {})


def test_clusters_that_are_no_list_are_refused_beside_one_of_the_command_line(tmp_path: Path) -> None:
    for clusters in ({"eu": {"storageClass": "fast"}}, "eu", None):
        with pytest.raises(Unusable, match="clusters: "):
            read(written(tmp_path, clusters=clusters), {"eu": Path("here")})


def test_a_model_that_nobody_knows_needs_its_memory(tmp_path: Path) -> None:
    config = read(written(tmp_path, gpuModels=[{**H100, "id": "b200"}]), {})
    with pytest.raises(Unusable, match=r"the model b200 is not built in .*: give its memoryGb"):
        models(config)


def test_what_is_no_document_is_refused(tmp_path: Path) -> None:
    (tmp_path / "runtime.yaml").write_text("- a list")
    with pytest.raises(Unusable, match="it needs gpuModels"):
        read(tmp_path / "runtime.yaml", {})
    (tmp_path / "runtime.yaml").write_text("{")
    with pytest.raises(Unusable, match="cannot be read"):
        read(tmp_path / "runtime.yaml", {})
