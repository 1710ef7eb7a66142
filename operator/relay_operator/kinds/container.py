"""What VMs and clusters say alike: the container, the machine under it, and where it is placed."""

from typing import Annotated

from pydantic import Field, JsonValue
from pydantic.alias_generators import to_camel

from relay_operator.api.parts import Image, Port
from relay_operator.api.schema import atomic
from relay_operator.api.workload import WorkloadSpec
from relay_operator.kinds.comparison import env_fields


class ContainerSpec(WorkloadSpec):
    """The fields that Create VM and Create cluster have in common (section 2), but for GPUs and replicas."""

    image: Image | None = Field(None, description="Container image.")
    resource_size: str | None = Field(
        None, min_length=1, max_length=128, description="Size of the machine, or of each replica's."
    )
    tier: str | None = Field(
        None, min_length=1, max_length=64, description="Tier of capacity, as the catalog names it."
    )
    container_port: Port | None = Field(None, description="Port that the container serves on.")
    container_command: list[Annotated[str, Field(max_length=4096)]] | None = Field(
        None, min_length=1, max_length=128, json_schema_extra=atomic(), description="Command run in the container."
    )
    health_check_path: str | None = Field(
        None, min_length=1, max_length=2048, pattern=r"^/\S*$", description="Path asked for its health."
    )
    health_check_port: Port | None = Field(None, description="Port asked for its health.")
    health_checks: list[Annotated[str, Field(min_length=1, max_length=2048)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Further health checks, as the cloud defines them."
    )
    preferred_regions: list[Annotated[str, Field(min_length=1, max_length=128)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Regions to be placed in, best first."
    )
    allow_fallback: bool | None = Field(
        None, description="Whether other regions may be used where the preferred ones are full."
    )
    disk_size_gb: int | None = Field(None, ge=1, le=65_536, description="Disk in GB; of a cluster, of each replica.")
    registry_credential_id: str | None = Field(
        None, min_length=1, max_length=253, description="The cloud's id of the credential for a private image."
    )
    privileged: bool | None = Field(None, description="Whether the container runs privileged.")
    kernel_modules: list[Annotated[str, Field(min_length=1, max_length=64)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Kernel modules loaded for the container."
    )
    template_id: str | None = Field(None, min_length=1, max_length=253, description="Template to start from.")


_LISTS = frozenset({"container_command", "health_checks", "preferred_regions", "kernel_modules"})
_ALIKE = tuple(name for name in ContainerSpec.model_fields if name not in {*WorkloadSpec.model_fields, "image"})


def requested(spec: ContainerSpec) -> dict[str, object]:
    """These fields as a create request has them."""
    return {"image_url": spec.image, **{name: getattr(spec, name) for name in _ALIKE}}


def unchangeable(spec: ContainerSpec) -> dict[str, JsonValue]:
    """These fields as the spec has them, and the environment; an absent and an empty list are the same."""
    fields = {to_camel(name): getattr(spec, name) or ([] if name in _LISTS else getattr(spec, name)) for name in _ALIKE}
    return {"image": spec.image, **fields, **env_fields(spec)}
