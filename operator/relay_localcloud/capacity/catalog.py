"""What is on sale: GPU models, CPU sizes, locations and VM templates, with their prices.

It does not change while a cloud is served; what is free is computed from the nodes (`placement.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from relay_localcloud.http.errors import ApiError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_EntryT = TypeVar("_EntryT", bound="DataclassInstance")

EVERY_COUNT: Final = (1, 2, 3, 4, 5, 6, 7, 8)
NVSWITCH_TILES: Final = (1, 2, 4, 8)  # partition sizes in which an NVSwitch board can be passed through
LARGEST_NODE: Final = 8  # GPUs of a node that is on sale
DEFAULT_DISK_GB: Final = 50


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A GPU model on sale; `vm_tiles` are the GPU counts that VFIO passthrough supports on a node, if it does."""

    id: str
    name: str
    memory_gb: int
    price_per_hour_cents: int  # of one GPU
    nvlink: bool
    node_ram_gb: int
    vm_tiles: tuple[int, ...]
    in_containers: bool = True


@dataclass(frozen=True, slots=True)
class CpuSize:
    """A machine without GPUs, as a VM or a cluster replica."""

    resource_size: str
    vcpu: int
    ram_mb: int
    price_per_hour_cents: int


@dataclass(frozen=True, slots=True)
class Location:
    """A data centre and its region."""

    id: str
    name: str
    region: str


@dataclass(frozen=True, slots=True)
class VmTemplate:
    """A prepared image for VMs and clusters."""

    id: str
    name: str
    description: str
    image_url: str


def _by_first_field(*entries: _EntryT) -> dict[str, _EntryT]:
    return {getattr(entry, fields(entry)[0].name): entry for entry in entries}


def entry(field: str, entries: Mapping[str, _EntryT], wanted: str, status: int = 422) -> _EntryT:
    """The entry that a request names; ApiError if the catalog does not have it."""
    if wanted not in entries:
        raise ApiError(status, f"{field}: there is no {wanted!r}; there are {', '.join(entries)}.")
    return entries[wanted]


_GPU_MODELS: Final = _by_first_field(
    GpuModel("h100", "NVIDIA H100 SXM 80GB", 80, 249, True, 2048, NVSWITCH_TILES),
    GpuModel("a100", "NVIDIA A100 SXM 80GB", 80, 139, True, 1024, NVSWITCH_TILES),
    GpuModel("l40s", "NVIDIA L40S 48GB", 48, 89, False, 768, EVERY_COUNT),
    GpuModel("rtx4090", "NVIDIA GeForce RTX 4090", 24, 39, False, 512, EVERY_COUNT),
)
GPU_MODELS: Final = MappingProxyType(_GPU_MODELS)
SHOWN_OF_MODEL: Final = ("id", "name", "memory_gb", "price_per_hour_cents")
"""What the catalog and the details of clusters show of a GPU model."""

_CPU_SIZES: Final = _by_first_field(
    CpuSize("small", 2, 4096, 4),
    CpuSize("medium", 4, 8192, 8),
    CpuSize("large", 8, 16384, 16),
    CpuSize("xlarge", 16, 32768, 32),
)
CPU_SIZES: Final = MappingProxyType(_CPU_SIZES)
_LOCATIONS: Final = {
    "ams1": Location("ams1", "Amsterdam", "eu-west"),
    "iad1": Location("iad1", "Ashburn", "us-east"),
    "sjc1": Location("sjc1", "San Jose", "us-west"),
}
LOCATIONS: Final = MappingProxyType(_LOCATIONS)
VM_TEMPLATES: Final[Mapping[str, VmTemplate]] = _by_first_field(
    VmTemplate("ubuntu-24-04", "Ubuntu 24.04", "Ubuntu with GPU drivers", "docker.io/library/ubuntu:24.04"),
    VmTemplate("pytorch", "PyTorch", "Ubuntu with CUDA and PyTorch", "docker.io/pytorch/pytorch:latest"),
    VmTemplate("vllm", "vLLM", "An OpenAI-compatible model server", "docker.io/vllm/vllm-openai:latest"),
)

_DISK_IMAGES: Final = dict[str, str]()
DISK_IMAGES: Final = MappingProxyType(_DISK_IMAGES)
"""The URL of the disk image that a real VM boots, by the image that its create names."""

SEEDED_NODE_LOCATIONS: Final = ("ams1", "iad1")
"""Every model has one node in each; the control interface adds and removes others."""


def sell(models: Iterable[GpuModel], sizes: Iterable[CpuSize], disk_images: Mapping[str, str]) -> None:
    """Put these on sale instead of the built-in GPU models and CPU sizes, at no location but their nodes'.

    Call it before a cloud is opened.
    """
    models_on_sale, sizes_on_sale = _by_first_field(*models), _by_first_field(*sizes)
    _GPU_MODELS.clear()
    _GPU_MODELS.update(models_on_sale)
    _LOCATIONS.clear()
    _CPU_SIZES.clear()
    _CPU_SIZES.update(sizes_on_sale)
    _DISK_IMAGES.update(disk_images)


def cpu_size(wanted: str | None) -> CpuSize:
    """The size that a request names, or the cheapest; ApiError 422 if the catalog does not have it."""
    if not wanted:
        return min(CPU_SIZES.values(), key=lambda size: size.price_per_hour_cents)
    return entry("resourceSize", CPU_SIZES, wanted)


def gpu_model(wanted: str, *, for_vm: bool = False) -> GpuModel:
    """The model that a request names; ApiError 422 if the catalog has no such model for VMs, or for containers."""
    models = {model.id: model for model in GPU_MODELS.values() if (model.vm_tiles if for_vm else model.in_containers)}
    return entry("gpuModelId", models, wanted)


def models_cheapest_first() -> list[GpuModel]:
    """The models for containers, in the order for requests that name none."""
    models = [model for model in GPU_MODELS.values() if model.in_containers]
    return sorted(models, key=lambda model: model.price_per_hour_cents)
