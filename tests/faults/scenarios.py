"""What runs under faults: the objects that are applied, become Ready and are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.support.manifests import gpu_cluster, gpu_pod

if TYPE_CHECKING:
    from tests.support.kube import Manifest

ENV_SECRET, ENV_KEY = "training", "token"
_ENV = [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": ENV_SECRET, "key": ENV_KEY}}}]


@dataclass(frozen=True)
class Kind:
    """A kind of object, as the cloud's own log names what happens to it."""

    name: str
    create: str
    terminate: str
    look: tuple[str, ...]
    """Proxied operations that are a look at it."""


POD = Kind("GpuPod", "POST /v1/pods", "POST /v1/vms/{id}/terminate", ("GET /v1/vms/{id}",))
CLUSTER = Kind(
    "GpuCluster",
    "POST /v1/orgs/{id}/clusters/create",
    "POST /v1/clusters/{id}/terminate",
    ("GET /v1/clusters/{id}/detail", "GET /v1/orgs/{id}/clusters"),
)


@dataclass(frozen=True)
class Scenario:
    """One object and its kind."""

    kind: Kind
    object: str


def workload(scenario: Scenario) -> Manifest:
    """The manifest of a pod or cluster; its environment comes from a Secret."""
    make = gpu_pod if scenario.kind is POD else gpu_cluster
    return make(scenario.object, env=_ENV)


SCENARIOS = {"pod": Scenario(POD, "trainer"), "cluster": Scenario(CLUSTER, "llm")}
