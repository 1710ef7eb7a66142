"""`/_localcloud/orphans`: containers of this cloud that its state has no record of, as after a restored backup."""

from relay_localcloud.http.bodies import Answer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx

router = Router()


@router.get("/orphans", summary="Containers that the state has no record of")
def list_orphans(tx: Tx) -> Answer:
    """Answers `{items: [{id, workloadId, cluster, namespace, createdAt}]}`; `id` is the pod's or the replica's."""
    fields = ("id", "workload_id", "cluster", "namespace", "created_at")
    return {"items": [shown(each, *fields) for each in tx.runtime.orphans()]}


@router.delete("/orphans/{id}", summary="End a container that the state has no record of")
def end_orphan(orphan_id: ResourceId, tx: Tx) -> None:
    """Its volume goes with it; 404 if there is none."""
    if not tx.runtime.end_orphan(orphan_id):
        raise ApiError(404, f"There is no container {orphan_id!r} without a record.")
