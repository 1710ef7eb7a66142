"""`/_localcloud/transfers`: what offers a workload to another organization."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from relay_localcloud.clusters import clusters
from relay_localcloud.http.bodies import Answer, ControlBody
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import transfers, workloads

router = Router()

_Id = Annotated[str, Field(min_length=1)]


class TransferOffer(BaseModel):
    """Which pod or VM goes to which organization."""

    model_config = ConfigDict(alias_generator=to_camel, frozen=True, strict=True, defer_build=True)

    workload_id: _Id
    to_organization_id: _Id


@router.post("/transfers", summary="Offer a workload to another organization")
def offer_transfer(body: ControlBody[TransferOffer], tx: Tx) -> Answer:
    """Answers `{id}`, which the receiving organization accepts; an earlier offer of the workload is withdrawn."""
    workload = workloads.find(tx, body.workload_id)
    if workload is None and clusters.find(tx, body.workload_id) is not None:
        raise ApiError(422, "workloadId: only pods and VMs are transferred.")
    if workload is None:
        raise ApiError(404, f"There is no workload {body.workload_id!r}.")
    organizations.organization(tx, body.to_organization_id)
    transfer_id = transfers.offer(tx, workload, body.to_organization_id)
    return {"id": transfer_id}
