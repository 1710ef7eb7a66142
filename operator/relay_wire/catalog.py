"""The public catalog: GPU models, availability, prices, locations, templates (sections 2 and 4, "Catalog")."""

from typing import Annotated

from pydantic import Field

from relay_wire.base import Identifier, Lenient, ListOf, Page, Received, Whole

Price = Annotated[Whole, Field(ge=0)]
"""Cents per hour."""


class GpuModel(Received):
    """A GPU model; all fields are assumed, since section 2 does not show them."""

    id: Identifier
    name: Lenient[str] = None
    memory_gb: Lenient[Whole] = None
    price_per_hour_cents: Lenient[Price] = None  # per GPU


class NodeClassCap(Received):
    """What one node can take; all fields are assumed, since section 2 does not show them."""

    node_id: Lenient[str] = None
    region: Lenient[str] = None
    total_gpus: Lenient[Whole] = None
    free_gpus: Lenient[Whole] = None
    spot_free_gpus: Lenient[Whole] = None  # not part of free_gpus
    reserved_free_gpus: Lenient[Whole] = None  # part of free_gpus


class ClassAvailability(Received):
    """Capacity of one GPU model in one consumption mode, for the calling organization."""

    total_gpus: Whole
    free_gpus: Whole
    max_placeable_gpus: Whole  # the largest single allocation: a workload lands on one node
    placeable_gpu_counts: ListOf[Whole] = Field(default_factory=list)
    spot_free_gpus: Lenient[Whole] = None  # not part of free_gpus; only with tier `spot`
    spot_placeable_gpu_counts: Lenient[list[Whole]] = None
    reserved_free_gpus: Lenient[Whole] = None  # part of free_gpus
    tile_lattice: Lenient[list[Whole]] = None  # VM view only
    nodes: Lenient[list[NodeClassCap]] = None


class GpuAvailability(Received):
    """Capacity of one GPU model: `vm` is VFIO passthrough, `cluster` container device requests."""

    gpu_model_id: Identifier
    vm: ClassAvailability | None = None
    cluster: ClassAvailability | None = None


class GpuPrice(Received):
    """The price of one GPU of a model; its fields are assumed, since section 2 does not show them."""

    gpu_model_id: Identifier
    name: Lenient[str] = None
    price_per_hour_cents: Lenient[Price] = None


class CpuPrice(Received):
    """The price of a CPU size (section 2, "Balance and billing")."""

    resource_size: str
    price_per_hour_cents: Lenient[Price] = None  # required; an odd one takes no other price away
    vcpu: Whole  # cores
    ram_mb: Whole  # MiB


class Pricing(Received):
    """GPU and CPU prices; the names of the two lists are assumed."""

    gpu: ListOf[GpuPrice] = Field(default_factory=list)
    cpu: ListOf[CpuPrice] = Field(default_factory=list)


class Location(Received):
    """A location of nodes; its fields are assumed, since section 2 does not show them."""

    id: Identifier
    name: Lenient[str] = None
    region: Lenient[str] = None


class VmTemplate(Received):
    """A template for VMs and clusters; its fields are assumed, since section 2 does not show them."""

    id: Identifier
    name: Lenient[str] = None
    description: Lenient[str] = None
    image_url: Lenient[str] = None


GpuModelList = Page[GpuModel]
GpuAvailabilityList = Page[GpuAvailability]
LocationList = Page[Location]
VmTemplateList = Page[VmTemplate]
