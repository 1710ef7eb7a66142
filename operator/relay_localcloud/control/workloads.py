"""`/_localcloud/workloads`, `/transfers`, `/upstreams`: events of workloads, and which servers answer for them."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field
from starlette.responses import Response

from relay_localcloud.capacity.offers import require_made_up
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.states import CLUSTER_TRANSITIONS, ClusterTrigger
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import Answer, ControlBody, ControlRequest, answer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.outcomes import STAY
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.engine import GroupT, Replicas
from relay_localcloud.replicas.states import REPLICA_TRANSITIONS, ReplicaTrigger
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.serving import rows as deployments
from relay_localcloud.workloads import images, moves, transfers, vm_logs, workloads
from relay_localcloud.workloads.transitions import TRANSITIONS, Trigger
from relay_localcloud.workloads.workloads import Workload

_Id = Annotated[str, Field(min_length=1)]

router = Router()

_WORKLOAD_TRIGGERS: Final = {"exit": Trigger.CONTAINER_EXITED, "fail": Trigger.FAILED}
_REPLICA_TRIGGERS: Final = {
    "exit": ReplicaTrigger.CONTAINER_AWAY,
    "unhealthy": ReplicaTrigger.CHECK_FAILED,
    "healthy": ReplicaTrigger.CHECK_PASSED,
    "terminateReplica": ReplicaTrigger.TERMINATE,
}
_CONTAINER: Final = "container"
_MOST_LINES: Final = 1000
DEFAULT_REASON: Final = "It failed."


class WorkloadEvent(ControlRequest):
    """Something that happens; without `replicaId`, an event of replicas happens to all of a cluster or deployment."""

    event: Literal["exit", "fail", "unhealthy", "healthy", "terminateReplica"]
    reason: Annotated[str, Field(min_length=1, max_length=2000)] | None = None
    replica_id: str | None = None


class TransferOffer(ControlRequest):
    """Which pod or VM goes to which organization."""

    workload_id: _Id
    to_organization_id: _Id


def _base(url: str) -> str:
    if not is_base_address(url):
        raise ValueError("must be an http or https URL without credentials, query and fragment")
    return url


class Upstream(ControlRequest):
    """An image, and the server that answers for its workloads; its path goes before each request's own."""

    image: Annotated[str, Field(min_length=1, max_length=2000)]
    url: Annotated[str, Field(max_length=2000), AfterValidator(_base)]


@router.post("/workloads/{id}/events", summary="Make something happen to a workload")
def workload_event(workload_id: ResourceId, body: ControlBody[WorkloadEvent], tx: Tx) -> Answer:
    """Answers `{id, status}`; 409 if it cannot happen in the present state."""
    require_made_up(tx, "Making something happen to a workload")
    workload = workloads.find(tx, workload_id)
    cluster = clusters.find(tx, workload_id) if workload is None else None
    if workload is not None:
        status = _to_workload(tx, workload, body).shown_status
    elif cluster is not None:
        status = _to_cluster(tx, cluster, body).status.value
    elif (deployment := deployments.find(tx, workload_id)) is not None:
        if body.event == "fail":
            raise ApiError(409, "A deployment does not fail as a whole: let its replicas become unhealthy.")
        status = _to_replicas(tx, serving_moves.REPLICAS, deployment, body).status.value
    else:
        raise ApiError(404, f"There is no workload {workload_id!r}.")
    return {"id": workload_id, "status": status}


@router.get("/workloads/{id}/logs", summary="The log of a VM or pod")
async def workload_log(workload_id: ResourceId, cloud: CurrentCloud) -> Response:
    """Answers `{items: [{at, source, line}]}`, oldest first: of a VM boots, cloudInit and health checks, of a pod the
    last 1,000 lines that its container printed, if one runs.
    """
    with cloud.store.transaction() as tx:
        workload = workloads.find(tx, workload_id)
        lines = vm_logs.lines_of(tx, workload_id)
    if workload is None:
        raise ApiError(404, f"There is no workload {workload_id!r}.")
    items = [{"at": timestamp(line.at), "source": line.source, "line": line.line} for line in lines]
    if cloud.containers is not None:
        printed = cloud.containers.log(workload.organization_id, workload_id, tail=_MOST_LINES, follow=False)
        text = b"".join([piece async for piece in printed]).decode(errors="replace")
        items = [_printed(line) for line in text.splitlines()]
    return answer({"items": items})


def _printed(line: str) -> dict[str, str]:
    at, _, said = line.partition(" ")
    return {"at": at, "source": _CONTAINER, "line": said}


@router.post("/transfers", summary="Offer a workload to another organization")
def offer_transfer(body: ControlBody[TransferOffer], tx: Tx) -> Answer:
    """Answers `{id}`, which the receiving organization accepts; an earlier offer of the workload is withdrawn."""
    workload = workloads.find(tx, body.workload_id)
    if workload is None and clusters.find(tx, body.workload_id) is not None:
        raise ApiError(422, "workloadId: only pods and VMs are transferred.")
    if workload is None:
        raise ApiError(404, f"There is no workload {body.workload_id!r}.")
    organizations.organization(tx, body.to_organization_id)
    return {"id": transfers.offer(tx, workload, body.to_organization_id)}


@router.post("/upstreams", summary="Send requests for workloads of an image to a server")
def set_upstream(body: ControlBody[Upstream], tx: Tx) -> Answer:
    """Answers the same; replaces the image's former server from the next request on."""
    images.put(tx, body.image, body.url)
    return body


@router.get("/upstreams", summary="The servers behind images")
def list_upstreams(tx: Tx) -> Answer:
    """Answers `{items: [{image, url}]}`; the echo answers for every other image."""
    return {"items": [{"image": image, "url": url} for image, url in images.every(tx).items()]}


@router.delete("/upstreams", summary="Let the echo answer for an image again")
def remove_upstream(tx: Tx, image: Annotated[str, Query(), Field(max_length=2000)]) -> None:
    """404 if nothing was set for the image."""
    if not images.remove(tx, image):
        raise ApiError(404, f"There is no upstream for the image {image!r}.")


def _to_workload(tx: Tx, workload: Workload, body: WorkloadEvent) -> Workload:
    if workload.kind == workloads.VM and body.event in {"healthy", "unhealthy"}:
        vm_logs.report_health(tx, workload, healthy=body.event == "healthy", reason=body.reason)
        return workload
    trigger = _WORKLOAD_TRIGGERS.get(body.event)
    if trigger is None:
        raise ApiError(400, f"event: {body.event} is for clusters.")
    if TRANSITIONS[workload.status, trigger] == STAY:
        raise ApiError(409, f"A workload that is {workload.shown_status} cannot {body.event}.")
    reason = body.reason or DEFAULT_REASON if trigger is Trigger.FAILED else None
    return moves.apply(tx, workload, trigger, reason)


def _to_cluster(tx: Tx, cluster: Cluster, body: WorkloadEvent) -> Cluster:
    if body.event == "fail":
        if CLUSTER_TRANSITIONS[cluster.status, ClusterTrigger.FAILED] == STAY:
            raise ApiError(409, f"A cluster that is {cluster.status.value} cannot fail.")
        return cluster_moves.apply(tx, cluster, ClusterTrigger.FAILED, body.reason or DEFAULT_REASON)
    return _to_replicas(tx, cluster_moves.REPLICAS, cluster, body)


def _to_replicas(tx: Tx, replicas: Replicas[GroupT], group: GroupT, body: WorkloadEvent) -> GroupT:
    noun = replicas.noun
    members = [each for each in replicas.of(tx, group.id) if body.replica_id in (None, each.id)]
    if body.replica_id is not None and not members:
        raise ApiError(404, f"replicaId: the {noun} has no replica {body.replica_id!r}.")
    trigger = _REPLICA_TRIGGERS[body.event]
    movable = [replica for replica in members if (replica.status, trigger) in REPLICA_TRANSITIONS]
    if not movable:
        raise ApiError(409, f"No replica of the {noun} is in a state for {body.event}.")
    if trigger is ReplicaTrigger.CONTAINER_AWAY:  # it is recreated in place at once
        return group
    for replica in movable:
        replicas.apply(tx, group, replica, trigger, body.reason)
    return replicas.settle(tx, group)
