"""What the gateway knows about a workload: its organization, whether it is public and serves, and its image.

A request names a workload by its Host or, on loopback, where names may not resolve, by the path `/_w/<workload id>/`.
"""

import re
from dataclasses import dataclass
from typing import Final

from relay_localcloud.clusters.clusters import CLUSTERS
from relay_localcloud.clusters.routes import DEFAULT_PORT
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.records import PRODUCTION
from relay_localcloud.workloads.workloads import POD, WORKLOADS
from relay_wire.clusters import ClusterStatus
from relay_wire.pods import PodStatus

WORKLOAD_COLUMNS: Final = ("status", "public", "organization_id", "image", "terminated_at")
CLUSTER_COLUMNS: Final = ("status", "active_replicas", "organization_id", "terminated_at")
"""The columns of the two tables that an endpoint depends on and that may change."""

_SERVING: Final = (ClusterStatus.RUNNING, ClusterStatus.DEGRADED)

_PORT: Final = re.compile(r":[0-9]*$")
_PER_PORT: Final = re.compile(r"([1-9][0-9]{0,4})-(.+)")
_BY_ID: Final = re.compile(r"(/_w/([^/?]+))/?(.*)", re.DOTALL)

HIGHEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The endpoint of one workload."""

    workload_id: str
    label: str
    noun: str
    organization_id: str
    public: bool
    per_port: bool
    """Whether its host names a port, as a production VM's does."""
    serves: bool
    """Whether it is to serve; if so, requests under way go on, even if no replica is healthy for a moment."""
    unready: str | None
    """Why it takes no further requests, as a part of a message; None if it does."""
    image: str | None
    port: int
    """The port at which the container listens."""
    deploy_token: str | None = None


def find(tx: Tx, **named: str) -> Endpoint | None:
    """The endpoint of the live workload with this `label` or this `id`; None if there is none."""
    workload = WORKLOADS.find(tx, terminated_at=None, **named)
    if workload is not None:
        serves = workload.status is PodStatus.RUNNING
        return Endpoint(
            workload_id=workload.id,
            label=workload.label,
            noun="pod" if workload.kind == POD else "VM",
            organization_id=workload.organization_id,
            public=workload.public,
            per_port=workload.capability_tier == PRODUCTION,
            serves=serves,
            unready=None if serves else f"is {workload.shown_status}",
            image=workload.image,
            port=workload.http_port,
        )
    cluster = CLUSTERS.find(tx, terminated_at=None, **named)
    if cluster is None:
        return None
    serves = cluster.status in _SERVING
    healthy = None if cluster.active_replicas else "has no healthy replica"
    return Endpoint(
        workload_id=cluster.id,
        label=cluster.label,
        noun="cluster",
        organization_id=cluster.organization_id,
        public=False,
        per_port=False,
        serves=serves,
        unready=healthy if serves else f"is {cluster.status}",
        image=cluster.created_as.image_url,
        port=cluster.created_as.container_port or DEFAULT_PORT,
        deploy_token=cluster.deploy_token,
    )


@dataclass(frozen=True, slots=True)
class LabelTarget:
    """A workload named by the label of its host; `port` in the per-port form of production VMs (section 2, "VM")."""

    label: str
    port: int | None


@dataclass(frozen=True, slots=True)
class IdTarget:
    """A workload named by its id in the path; `prefix` is the part of the path that the workload does not see."""

    workload_id: str
    prefix: str


Target = LabelTarget | IdTarget


@dataclass(frozen=True, slots=True)
class Names:
    """How requests name workloads."""

    domain: str = "localhost"
    """What follows the label in the host of an endpoint."""
    by_path: bool = True
    """Whether a path may name a workload too. Such workloads share an origin, so only one person's cloud allows it."""

    def target(self, host: str, path: str) -> tuple[Target, str] | None:
        """The workload that a request names, and the path and query that it sees; None if none is named."""
        if not path.startswith("/"):
            return None
        name, suffix = _PORT.sub("", host).rstrip(".").lower(), f".{self.domain}"
        if name.endswith(suffix):
            return _label(name.removesuffix(suffix)), path
        by_id = _BY_ID.fullmatch(path) if self.by_path else None
        if by_id is None:
            return None
        prefix, workload_id, rest = by_id.groups()
        return IdTarget(workload_id, prefix), f"/{rest}"


def _label(label: str) -> LabelTarget:
    per_port = _PER_PORT.fullmatch(label)
    if per_port is None or int(per_port[1]) > HIGHEST_PORT:
        return LabelTarget(label, None)
    return LabelTarget(per_port[2], int(per_port[1]))
