"""The administrator's configuration of clusters, GPU models and CPU sizes: `--runtime-config` and `--cluster`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from relay_localcloud.capacity.catalog import CPU_SIZES, EVERY_COUNT, GPU_MODELS, CpuSize, GpuModel
from relay_localcloud.http.errors import sentence
from relay_localcloud.runtimes.kubernetes.names import ALONE
from relay_localcloud.runtimes.kubernetes.nodes import Gpu
from relay_localcloud.runtimes.runtime import Unusable
from relay_localcloud.workloads.container import LONGEST_REFERENCE, LONGEST_SIZE

_Cents = Annotated[int, Field(ge=0, le=10_000_000)]
_Word = Annotated[str, Field(min_length=1, max_length=100)]
_Reference = Annotated[str, Field(min_length=1, max_length=LONGEST_REFERENCE)]
_DiskImage = Annotated[str, Field(pattern=r"^(docker|https?)://\S+$", max_length=LONGEST_REFERENCE)]
"""The URL of a disk image, in a container image (docker) or as a file."""
_Labels = Mapping[str, str]
Arguments = tuple[Path | None, Mapping[str, Path]]
"""The file of `--runtime-config`, and the kubeconfigs of `--cluster` by the name of the cluster."""
GPU: Final = "nvidia.com/gpu"


class _Said(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


class ClusterConfig(_Said):
    """A cluster: its credentials, the labels of the nodes that the cloud may use, and the storage class of volumes.

    `image_pull_policy` is for a cluster whose images are on its nodes alone, or whose organizations trust each other.
    Without a `kubeconfig` it is the cluster that this process runs in; without a `storageClass` pods are not offered.
    """

    name: _Word
    kubeconfig: Path | None = None
    node_selector: _Labels = {}
    storage_class: _Word | None = None
    image_pull_policy: Literal["Always", "IfNotPresent"] = "Always"


class GpuModelConfig(_Said):
    """A GPU model on sale, and the labels of the nodes that have it; a model that is not built in needs `memoryGb`."""

    id: _Word
    name: _Word | None = None
    node_labels: Annotated[_Labels, Field(min_length=1)]
    resource: _Word = GPU
    price_per_hour_cents: _Cents
    memory_gb: Annotated[int, Field(ge=1, le=100_000)] | None = None
    passthrough: bool = False  # to VMs, and to no container


class CpuSizeConfig(_Said):
    """A size on sale of what has no GPU."""

    resource_size: Annotated[str, Field(min_length=1, max_length=LONGEST_SIZE)]
    vcpu: Annotated[int, Field(ge=1, le=10_000)]
    ram_mb: Annotated[int, Field(ge=1, le=100_000_000)]
    price_per_hour_cents: _Cents


def _together(clusters: Sequence[ClusterConfig]) -> Sequence[ClusterConfig]:
    if len({each.name for each in clusters}) < len(clusters):
        raise ValueError("give each cluster a name of its own")
    if sum(each.kubeconfig is None for each in clusters) > 1:
        raise ValueError("give a kubeconfig for each cluster but the one that the cloud runs in")
    if len({each.storage_class is None for each in clusters}) > 1:
        raise ValueError("give a storageClass for each cluster or for none: pods are offered everywhere or nowhere")
    return clusters


class RuntimeConfig(_Said):
    """The whole document of `--runtime-config`."""

    clusters: Annotated[Sequence[ClusterConfig], Field(min_length=1), AfterValidator(_together)] = (
        ClusterConfig(name=ALONE),
    )
    gpu_models: Annotated[Sequence[GpuModelConfig], Field(min_length=1)]
    cpu_sizes: Annotated[Sequence[CpuSizeConfig], Field(min_length=1)] | None = None
    vm_images: Mapping[_Reference, _DiskImage] = {}
    privileged_allowed: bool = False


def read(path: Path | None, clusters: Mapping[str, Path]) -> RuntimeConfig:
    """The configuration in a file; `clusters` sets kubeconfigs of the clusters in it, by name, or adds clusters.

    Paths of kubeconfigs in the file are relative to its folder. Raises Unusable.
    """
    if path is None:
        raise Unusable("--runtime kubernetes needs --runtime-config FILE, which says which nodes have which GPU model")
    try:
        document = yaml.safe_load(path.read_text())
        if not isinstance(document, dict):
            raise Unusable(f"{path} is not a document of --runtime-config: it needs gpuModels")
        return RuntimeConfig.model_validate(_with(document, clusters, path.parent))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Unusable(f"{path} cannot be read: {error}") from None
    except ValidationError as error:
        raise Unusable(f"{path}: {sentence(error.errors(include_url=False, include_input=False))}") from None


def models(config: RuntimeConfig) -> list[GpuModel]:
    """The models on sale. Raises Unusable for one whose memory is neither configured nor built in."""
    return [_model(each) for each in config.gpu_models]


def sizes(config: RuntimeConfig) -> list[CpuSize]:
    """The sizes on sale: the built-in ones if none is configured."""
    if config.cpu_sizes is None:
        return list(CPU_SIZES.values())
    return [CpuSize(**each.model_dump()) for each in config.cpu_sizes]


def table(config: RuntimeConfig, cluster: ClusterConfig) -> list[Gpu]:
    """The GPU models with the labels that identify their nodes in the cluster."""
    return [Gpu(each.id, {**cluster.node_selector, **each.node_labels}, each.resource) for each in config.gpu_models]


def _with(document: dict[str, object], named: Mapping[str, Path], folder: Path) -> dict[str, object]:
    listed = document.get("clusters", [])
    if not isinstance(listed, list):
        return document  # left for the validation to refuse
    clusters = {str(each.get("name")): each for each in listed if isinstance(each, dict)}
    if len(clusters) != len(listed):
        return document  # a duplicate name or no mapping: likewise
    for cluster in clusters.values():
        if isinstance(cluster.get("kubeconfig"), str):
            cluster["kubeconfig"] = folder / cluster["kubeconfig"]
    for name, kubeconfig in named.items():
        clusters[name] = {"name": name, **clusters.get(name, {}), "kubeconfig": kubeconfig}
    return {**document, "clusters": list(clusters.values())} if clusters else document


def _model(said: GpuModelConfig) -> GpuModel:
    known = GPU_MODELS.get(said.id)
    memory_gb = said.memory_gb or (known.memory_gb if known else None)
    if memory_gb is None:
        raise Unusable(
            f"gpuModels: the model {said.id} is not built in (built in: {', '.join(GPU_MODELS)}): give its memoryGb"
        )
    name = said.name or (known.name if known else said.id)
    tiles, in_containers = (EVERY_COUNT if said.passthrough else ()), not said.passthrough
    return GpuModel(said.id, name, memory_gb, said.price_per_hour_cents, False, 0, tiles, in_containers)
