"""Checks of the container that a create describes: image, variables, health checks (section 2).

Section 2 gives only types: the bounds are assumed, so that nothing meaningless is stored.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from relay_localcloud.capacity import catalog
from relay_localcloud.capacity.catalog import VM_TEMPLATES
from relay_localcloud.http.errors import ApiError
from relay_wire.clusters import ClusterCreate
from relay_wire.vms import VmCreate

MOST_REGIONS: Final = 32
MOST_HEALTH_CHECKS: Final = 32
MOST_KERNEL_MODULES: Final = 64
MOST_SSH_KEYS: Final = 100
LARGEST_ENVIRONMENT: Final = 128 * 1024
MOST_VARIABLES: Final = 1_000
"""Each is several objects in a Pod, and a Pod of tens of thousands is not read (`relay_kube/nesting.py`)."""
NO_GPUS: Final[Mapping[str, str]] = {
    "NVIDIA_VISIBLE_DEVICES": "void",
    "AMD_VISIBLE_DEVICES": "none",
    "HABANA_VISIBLE_DEVICES": "none",
}
"""The variables by which runtimes of NVIDIA, AMD and Intel give GPUs to a container, whether or not it asked for any,
and the values for which they give none. Without a value, and with `void`, Habana's runtime gives all.

Other variables only choose among the GPUs that it has: `CUDA_VISIBLE_DEVICES`, `ROCR_VISIBLE_DEVICES`,
`HIP_VISIBLE_DEVICES`, `HABANA_VISIBLE_MODULES`, `ZE_AFFINITY_MASK`.
"""
_OF_SWARM: Final = "DOCKER_RESOURCE_"
"""AMD's runtime reads a variable with this prefix as it does its own."""
LONGEST_REFERENCE: Final = 2000
LONGEST_SIZE: Final = 63

_REFERENCE: Final = re.compile(r"[!-~]+")
_PATH: Final = re.compile(r"/[!-~]*")
_KERNEL_MODULE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

_CreateT = TypeVar("_CreateT", VmCreate, ClusterCreate)


def check(body: VmCreate | ClusterCreate) -> None:
    """Refuse with 400 what no container could be started with."""
    check_image("imageUrl", body.image_url)
    if len(body.resource_size or "") > LONGEST_SIZE:
        raise ApiError(400, f"resourceSize: at most {LONGEST_SIZE} characters.")
    check_variables("envVars", body.env_vars or {})
    check_list("preferredRegions", body.preferred_regions, MOST_REGIONS)
    check_list("healthChecks", body.health_checks, MOST_HEALTH_CHECKS)
    check_list("kernelModules", body.kernel_modules, MOST_KERNEL_MODULES)
    if any(_KERNEL_MODULE.fullmatch(module) is None for module in body.kernel_modules or ()):
        raise ApiError(400, "kernelModules: a module's name has letters, digits, _ and -, such as nvidia_uvm.")
    path = body.health_check_path
    if path is not None and (len(path) > LONGEST_REFERENCE or _PATH.fullmatch(path) is None):
        raise ApiError(400, "healthCheckPath: give the path of a URL that begins with /, such as /health.")


def check_image(field: str, image: str | None) -> None:
    """Refuse a text that cannot name an image."""
    if image is not None and (len(image) > LONGEST_REFERENCE or _REFERENCE.fullmatch(image) is None):
        raise ApiError(400, f"{field}: this does not name a container image, such as docker.io/library/ubuntu:24.04.")


def check_variables(field: str, variables: Mapping[str, str]) -> None:
    """Refuse invalid names of variables, those that give GPUs, and more than are stored; values are arbitrary."""
    if len(variables) > MOST_VARIABLES:
        raise ApiError(400, f"{field}: at most {MOST_VARIABLES} variables.")
    if sum(len(name) + len(value) for name, value in variables.items()) > LARGEST_ENVIRONMENT:
        raise ApiError(400, f"{field}: at most {LARGEST_ENVIRONMENT} characters in names and values together.")
    if any(not name or "=" in name for name in variables):
        raise ApiError(400, f"{field}: the name of a variable is not empty and has no =.")
    unfit = next(filter(gives_gpus, variables), None)
    if unfit is not None:
        raise ApiError(400, f"{field}: {unfit} is not for workloads, since it gives GPUs that were not asked for.")


def gives_gpus(variable: str) -> bool:
    """Whether a container may get GPUs by a variable of this name."""
    return variable in NO_GPUS or variable.startswith(_OF_SWARM)


def check_list(field: str, values: Sequence[str] | None, most: int) -> None:
    """Refuse too many entries, and empty ones."""
    if values is None:
        return
    if len(values) > most:
        raise ApiError(400, f"{field}: at most {most} entries.")
    if any(not value.strip() for value in values):
        raise ApiError(400, f"{field}: no entry may be empty.")


def from_template(body: _CreateT) -> _CreateT:
    """The request, with its template's image if it names none; ApiError 422 for an unknown template."""
    if body.template_id is None:
        return body
    template = catalog.entry("templateId", VM_TEMPLATES, body.template_id)
    return body if body.image_url is not None else body.model_copy(update={"image_url": template.image_url})
