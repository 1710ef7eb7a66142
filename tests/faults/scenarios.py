"""What runs under faults: the objects that are applied, become Ready, are changed and are deleted."""

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
    """A kind of object, as the cloud's own log names what happens to it."""

    name: str
    create: str
    terminate: str
    look: tuple[str, ...]
    """Proxied operations that are a look at it."""


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


# Three calls with which an account is looked at, whatever else happens.
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
    """What people do once everything has settled, after which it settles again; `phase` names the calls after it."""

    phase: str
    act: Act


@dataclass(frozen=True)
class Scenario:
    """One object, its kind, and what is done to it between its creation and its deletion.

    `after` names the scenarios whose requests are not looked at again in this one. `end` is the phase in which it goes.
    """

    kind: Kind
    object: str
    steps: tuple[Step, ...] = ()
    after: tuple[str, ...] = ("account",)
    end: str = "delete"
    own: tuple[str, ...] = ()
    """Patterns of operations that are of this scenario though they are asked about every account, all the time."""
    forced: bool = False
    """Whether people take a finalizer off: what the object had may be left to them, if its account tells of it."""
    only: str = ""
    """The phase whose requests are looked at; empty: each."""
    at_once: int = 1
    """How many the object may have in the cloud at a time: what is replaced serves until the next one is Ready."""
    met_by: frozenset[str] = frozenset()
    """What its requests meet; empty: all that the table has."""


def workload(scenario: Scenario) -> Manifest:
    """The manifest; environments and grants come from a Secret, and a schedule's batches stay paused."""
    if scenario.kind is SCHEDULE:
        return batch_schedule(scenario.object)
    if scenario.kind is RUNNERS:
        return relay_object(RUNNERS.name, scenario.object, installationId=42, poolRamGb=64, grantFrom=_SECRET)
    return _MANIFESTS[scenario.kind.name](scenario.object, env=_ENV)


ENDED_WITH_ITS_NAMESPACE = "namespace"
"""The phase in which a namespace is deleted, and everything in it."""
STARTED = "start"
"""The phase in which the operator ends and starts: what it asks for everywhere, and only then, counts."""
WORKLOADS = ("pod", "cluster")
