"""Scenarios: objects that are applied, become Ready, are changed and deleted, all under faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.cluster.batch_schedule.runs import batch_schedule
from tests.support.manifests import gpu_cluster, gpu_pod, gpu_vm, relay_object

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.faults.ground import Ground
    from tests.support.kube import Manifest

    Act = Callable[[Ground], Awaitable[None]]

ENV_SECRET, ENV_KEY = "training", "token"
_SECRET = {"secretKeyRef": {"name": ENV_SECRET, "key": ENV_KEY}}
_ENV = [{"name": "TOKEN", "valueFrom": _SECRET}]


@dataclass(frozen=True)
class Kind:
    """A kind of object, with the cloud's operations that create, terminate and read its resources."""

    name: str
    create: str
    terminate: str
    look: tuple[str, ...]
    """Operations, as the proxy names them, that are a look at the object."""


POD = Kind("GpuPod", "POST /v1/pods", "POST /v1/vms/{id}/terminate", ("GET /v1/vms/{id}",))
VM = Kind("GpuVm", "POST /v1/orgs/{id}/vms/create", "POST /v1/vms/{id}/terminate", ("GET /v1/vms/{id}",))
CLUSTER = Kind(
    "GpuCluster",
    "POST /v1/orgs/{id}/clusters/create",
    "POST /v1/clusters/{id}/terminate",
    ("GET /v1/clusters/{id}/detail", "GET /v1/orgs/{id}/clusters"),
)
RUNNERS = Kind(
    "RunnerPool",
    "POST /v1/orgs/{id}/runner-pools",
    "DELETE /v1/orgs/{id}/runner-pools/{id}",
    ("GET /v1/orgs/{id}/runner-pools",),
)


# The three calls of a look at an account, which is periodic.
LOOKS_AT_AN_ACCOUNT = (
    "GET /v1/orgs/{id}/webhooks",
    "GET /v1/orgs/{id}/billing/balance",
    "GET /v1/orgs/{id}/billing/usage",
)
SCHEDULE = Kind("InferenceBatchSchedule", "", "", LOOKS_AT_AN_ACCOUNT)
ACCOUNT = Kind("CloudAccount", "", "", LOOKS_AT_AN_ACCOUNT)


_MANIFESTS = {POD.name: gpu_pod, VM.name: gpu_vm, CLUSTER.name: gpu_cluster}


@dataclass(frozen=True)
class Step:
    """An act of people after everything has settled; `phase` names the calls from it until everything settles again."""

    phase: str
    act: Act


@dataclass(frozen=True)
class Scenario:
    """One object, its kind, and the steps between its creation and its deletion.

    `after` names the scenarios whose request classes get no further plans in this one. `end` is the phase of deletion.
    """

    kind: Kind
    object: str
    steps: tuple[Step, ...] = ()
    after: tuple[str, ...] = ("account",)
    end: str = "delete"
    own: tuple[str, ...] = ()
    """Patterns of operations that belong to this scenario although every account's looks send them too."""
    forced: bool = False
    """Whether people remove a finalizer: the object's resource may then stay, if the account reports it."""
    kept: bool = False
    """Whether people leave a resource in the cloud on purpose: it stays, if the account reports it as kept."""
    only: str = ""
    """The only phase whose requests get plans; empty: every phase."""
    at_once: int = 1
    """How many resources the object may have at a time; 2 if a replaced one serves until the next is Ready."""
    met_by: frozenset[str] = frozenset()
    """The names of the faults that its requests meet; empty: all in the table."""


def workload(scenario: Scenario) -> Manifest:
    """Returns the manifest; environments and grants come from a Secret, and a schedule's batches stay paused."""
    if scenario.kind is SCHEDULE:
        return batch_schedule(scenario.object)
    if scenario.kind is RUNNERS:
        return relay_object(RUNNERS.name, scenario.object, installationId=42, poolRamGb=64, grantFrom=_SECRET)
    return _MANIFESTS[scenario.kind.name](scenario.object, env=_ENV)


ENDED_WITH_ITS_NAMESPACE = "namespace"
"""The phase in which the namespace is deleted with everything in it."""
STARTED = "start"
"""The phase in which the operator ends and starts; its requests outside any namespace get plans too."""
WORKLOADS = ("pod", "cluster")
