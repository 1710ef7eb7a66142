"""GpuModel: what the cloud sells and how much of it is free, for people to read."""

from typing import Annotated, Final

from pydantic import Field

from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.definition import AGE, REASON, Column, Definition
from relay_operator.api.meta import Model
from relay_operator.api.schema import atomic

CATALOG: Final = "catalog"
"""The object for everything that does not belong to one GPU model."""
MOST = 256
"""The longest list."""
MOST_COUNTS = 64

Id = Annotated[str, Field(max_length=253)]
Text = Annotated[str, Field(max_length=1024)]
Counts = Annotated[list[int], Field(max_length=MOST_COUNTS, json_schema_extra=atomic())]


class GpuModelSpec(Model):
    """Empty: the operator creates these objects."""


class Capacity(Model):
    """How many GPUs of a model the account's organization can have in one way, such as pods or clusters."""

    total_gpus: int = Field(description="GPUs that exist, free or not.")
    free_gpus: int = Field(description="Free GPUs.")
    max_placeable_gpus: int = Field(description="The most GPUs that one workload can have now: it is on one node.")
    placeable_gpu_counts: Counts = Field(description="Numbers of GPUs that one workload can have now.")
    spot_free_gpus: int | None = Field(None, description="Free GPUs of the tier spot, which freeGpus does not count.")


class CpuSize(Model):
    """A machine without GPUs."""

    resource_size: Id = Field(description="What resourceSize names.")
    vcpu: int = Field(description="Cores.")
    ram_mb: int = Field(description="Memory in MiB.")
    price_per_hour_cents: int = Field(description="Price an hour, in cents.")


class Location(Model):
    """A location of nodes."""

    id: Id = Field(description="The cloud's identifier.")
    name: Text | None = Field(None, description="Its name.")
    region: Text | None = Field(None, description="What preferredRegions names.")


class VmTemplate(Model):
    """A prepared image for VMs and clusters."""

    id: Id = Field(description="What templateId names.")
    name: Text | None = Field(None, description="Its name.")
    description: Text | None = Field(None, description="Its contents.")
    image_url: Text | None = Field(None, description="The image.")


class GpuModelStatus(ObjectStatus):
    """What the cloud's catalog says, as the organization of one account sees it."""

    name: Text | None = Field(None, description="The model's name.")
    memory_gb: int | None = Field(None, description="Memory of one GPU in GB.")
    price_per_hour_cents: int | None = Field(None, description="Price of one GPU an hour, in cents.")
    free_gpus: int | None = Field(None, description="Free GPUs: the larger of cluster and vm, which share nodes.")
    max_placeable_gpus: int | None = Field(None, description="The most GPUs that one workload can have now.")
    spot_free_gpus: int | None = Field(None, description="Free GPUs of the tier spot, which freeGpus does not count.")
    cluster: Capacity | None = Field(None, description="For containers: pods and clusters.")
    vm: Capacity | None = Field(None, description="For virtual machines.")
    cpu_sizes: list[CpuSize] | None = Field(
        None,
        max_length=MOST,
        json_schema_extra=atomic(),
        description="Machines without GPUs; only in the object catalog.",
    )
    templates: list[VmTemplate] | None = Field(
        None,
        max_length=MOST,
        json_schema_extra=atomic(),
        description="Images for VMs and clusters; only in the object catalog.",
    )
    locations: list[Location] | None = Field(
        None, max_length=MOST, json_schema_extra=atomic(), description="Where nodes are; only in the object catalog."
    )
    unlisted: list[Id] | None = Field(
        None,
        max_length=MOST,
        json_schema_extra=atomic(),
        description="Models without an object, since their id cannot be an object's name, or there are too many; "
        "only in the object catalog.",
    )


DEFINITION = Definition(
    kind="GpuModel",
    plural="gpumodels",
    short_name="gmodel",
    spec=GpuModelSpec,
    status=GpuModelStatus,
    namespaced=False,
    read_only=True,
    summary="A GPU model that the cloud sells: what is free, and what it costs. The operator makes these objects.",
    columns=(
        Column("Model", ".status.name"),
        Column("Free", ".status.freeGpus", "integer"),
        Column("Largest", ".status.maxPlaceableGpus", "integer"),
        Column("Spot", ".status.spotFreeGpus", "integer"),
        Column("Cents/h", ".status.pricePerHourCents", "integer"),
        Column("Stale", '.status.conditions[?(@.type=="Stalled")].lastTransitionTime', "date"),
        AGE,
        REASON,
        Column("VM-free", ".status.vm.freeGpus", "integer", priority=1),
        Column("VM-largest", ".status.vm.maxPlaceableGpus", "integer", priority=1),
    ),
)
