"""`kubectl relay adopt`: lets an object take over an existing cloud resource."""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final, Protocol, TypeAlias, TypeVar

import typer

from relay_cli import accounts, objects
from relay_cli.accounts import BaseUrl
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.objects import CloudObject, Reference
from relay_cli.tables import dollars
from relay_cli.terminal import say
from relay_client import Cloud, items_of
from relay_client.operations import (
    GET_CLUSTER,
    GET_DEPLOYMENT,
    GET_VM,
    LIST_MEMBERS,
    LIST_REGISTRY_CREDENTIALS,
    LIST_RUNNER_POOLS,
    LIST_SSH_KEYS,
    Operation,
)
from relay_operator.api.meta import ADOPT_ID
from relay_wire.base import Page
from relay_wire.clusters import ClusterSummary
from relay_wire.serving import Deployment
from relay_wire.vms import VmRecord

CloudId: TypeAlias = Annotated[str, typer.Argument(metavar="CLOUD_ID", help="The resource's id in the cloud.")]
Look: TypeAlias = Callable[[Cloud, str], Awaitable[str | None]]


class _Listed(Protocol):
    @property
    def id(self) -> str: ...


ItemT = TypeVar("ItemT", bound=_Listed)


async def adopt(kubectl: Kubectl, reference: Reference, cloud_id: CloudId, base_url: BaseUrl = "") -> None:
    """Let an object take over an existing resource; the operator then compares the resource with the spec."""
    obj = await objects.one(kubectl, reference)
    look = how_to_look(obj, cloud_id)
    async with accounts.cloud_of(kubectl, await accounts.of(kubectl, obj), base_url) as cloud:
        seen = await look(cloud, cloud_id)
    if seen is None:
        raise Failure(f"the cloud of {obj.key} has no {obj.kind} with the id {cloud_id}: check the id")
    say(f"{cloud_id}: {seen}\n")
    await kubectl.annotate(reference, ADOPT_ID, cloud_id)
    command = shlex.join(["kubectl", "describe", reference, *kubectl.options()])
    say(f"{obj.key} adopts it if its spec matches; to see the outcome: {command}\n")


def how_to_look(obj: CloudObject, cloud_id: str) -> Look:
    """The function that reads a resource of the object's kind. Raises Failure if the object must not adopt it. Pure."""
    if obj.status.id:
        raise Failure(f"{obj.key} has {obj.status.id} in the cloud already: let another object adopt {cloud_id}")
    look = LOOKS.get(obj.kind)
    if look is None:
        raise Failure(f"cannot look up {obj.kind} objects; these kinds work: {', '.join(LOOKS)}", Status.MISUSED)
    return look


def vm_as_seen(vm: VmRecord) -> str:
    """One line about a pod or VM. Pure."""
    price = f"{dollars(vm.price_per_hour_cents)} an hour" if vm.price_per_hour_cents is not None else ""
    gpus = f"{vm.gpu_count} {vm.gpu_model_id}" if vm.gpu_model_id else ""
    return _line(vm.name, vm.status, gpus, vm.image_url, price)


def cluster_as_seen(cluster: ClusterSummary) -> str:
    """One line about a cluster. Pure."""
    return _line(cluster.name, cluster.status, _replicas(cluster.replica_count), cluster.gpu_model_id)


def deployment_as_seen(deployment: Deployment) -> str:
    """One line about a serving deployment. Pure."""
    replicas = _replicas(deployment.replicas_desired)
    return _line(deployment.public_model_id, deployment.status, replicas, deployment.gpu_model_id)


async def _vm(cloud: Cloud, cloud_id: str) -> str:
    return vm_as_seen(await cloud.call(GET_VM, id=cloud_id))


async def _cluster(cloud: Cloud, cloud_id: str) -> str:
    return cluster_as_seen(await cloud.call(GET_CLUSTER, id=cloud_id))


async def _deployment(cloud: Cloud, cloud_id: str) -> str:
    return deployment_as_seen(await cloud.call(GET_DEPLOYMENT, id=cloud_id))


def _among(operation: Operation[None, Page[ItemT]], told: Callable[[ItemT], str]) -> Look:
    """A look at a resource that the cloud shows only in lists."""

    async def look(cloud: Cloud, cloud_id: str) -> str | None:
        return next((told(item) for item in await items_of(cloud, operation) if item.id == cloud_id), None)

    return look


def _replicas(count: int | None) -> str:
    return "" if count is None else f"{count} replicas"


def _line(*parts: str | None) -> str:
    return ", ".join(part for part in parts if part) or "without a name"


LOOKS: Final[Mapping[str, Look]] = {
    "GpuPod": _vm,
    "GpuVm": _vm,
    "GpuCluster": _cluster,
    "ServingDeployment": _deployment,
    "SshKey": _among(LIST_SSH_KEYS, lambda key: _line(key.name)),
    "RegistryCredential": _among(LIST_REGISTRY_CREDENTIALS, lambda one: _line(one.name, one.server)),
    "OrganizationMember": _among(LIST_MEMBERS, lambda member: _line(member.email, member.role)),
    "RunnerPool": _among(LIST_RUNNER_POOLS, lambda pool: _line(pool.name, pool.vcs_owner)),
}
"""How to read one cloud resource, by the kind of the object."""
