"""What the specs of VMs and clusters share: the container, its machine, and its placement."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, JsonValue
from pydantic.alias_generators import to_camel

from relay_operator.api.meta import ObjectKey
from relay_operator.api.parts import Image, Port
from relay_operator.api.references import REFERENCES, LocalRef
from relay_operator.api.schema import atomic
from relay_operator.api.workload import WorkloadSpec
from relay_operator.kinds.comparison import env_fields


class ContainerSpec(WorkloadSpec):
    """The fields that Create VM and Create cluster share (section 2), except GPUs and replicas."""

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
        None, description="Whether other regions may be used if the preferred ones are full."
    )
    disk_size_gb: int | None = Field(None, ge=1, le=65_536, description="Disk in GB; of a cluster, of each replica.")
    registry_credential_id: str | None = Field(
        None, min_length=1, max_length=253, description="The cloud's id of the credential for a private image."
    )
    registry_credential_ref: LocalRef | None = Field(
        None, description="The RegistryCredential of this namespace that a private image is pulled with."
    )
    privileged: bool | None = Field(None, description="Whether the container runs privileged.")
    kernel_modules: list[Annotated[str, Field(min_length=1, max_length=64)]] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Kernel modules loaded for the container."
    )
    template_id: str | None = Field(None, min_length=1, max_length=253, description="Template to start from.")


ONE_CREDENTIAL = (
    "!(has(self.registryCredentialId) && has(self.registryCredentialRef))",
    "set registryCredentialId or registryCredentialRef, not both",
)
"""A rule for the specs of VMs and clusters."""
_LISTS = frozenset({"container_command", "health_checks", "preferred_regions", "kernel_modules"})
_OTHERWISE = ("image", "registry_credential_ref")
_ALIKE = tuple(name for name in ContainerSpec.model_fields if name not in {*WorkloadSpec.model_fields, *_OTHERWISE})


def credential(namespace: str, spec: ContainerSpec) -> tuple[ObjectKey, ...]:
    """The RegistryCredential that the spec refers to, if any."""
    ref = spec.registry_credential_ref
    return () if ref is None else (ObjectKey(REFERENCES["registryCredentialRef"], namespace, ref.name),)


def requested(spec: ContainerSpec, ids: Mapping[ObjectKey, str]) -> dict[str, object]:
    """These fields as a create request has them, with the cloud ids of the objects that the spec refers to."""
    request = {"image_url": spec.image, **{name: getattr(spec, name) for name in _ALIKE}}
    pulled_with = (ids[key] for key in ids if key.kind == REFERENCES["registryCredentialRef"])
    return request | {"registry_credential_id": spec.registry_credential_id or next(pulled_with, None)}


def unchangeable(spec: ContainerSpec) -> dict[str, JsonValue]:
    """These fields as the spec has them, and the environment; an absent list equals an empty one."""
    fields = {to_camel(name): getattr(spec, name) or ([] if name in _LISTS else getattr(spec, name)) for name in _ALIKE}
    ref = spec.registry_credential_ref
    credential_ref = {"registryCredentialRef": None if ref is None else ref.name}
    return {"image": spec.image, **fields, **credential_ref, **env_fields(spec)}
