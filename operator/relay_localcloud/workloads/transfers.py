"""Transfers: a pod or VM changes its organization (section 2, "Accept transfer"; all else is assumed).

The control interface offers, the receiving organization accepts. Usage before that second is billed to the former
organization, all later usage to the receiving one; the locked rate stays. A workload has one open offer: a newer one
withdraws it.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, text

from relay_localcloud.capacity import claims, nodes, reservations
from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.capacity.placement import SPOT
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import OptionalBody
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import Principal, ResourceId, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads import admission, container, ssh_keys, workloads
from relay_localcloud.workloads.moves import forget_who_ran_out
from relay_localcloud.workloads.records import vm_record
from relay_localcloud.workloads.transitions import BILLED, HOLDS_GPUS
from relay_localcloud.workloads.workloads import Workload
from relay_wire.pods import PodStatus
from relay_wire.transfers import TransferAccept
from relay_wire.vms import VmRecord

router = Router("Transfers")


@dataclass(frozen=True, slots=True)
class Transfer:
    """An offer of a workload."""

    sequence: int
    id: str
    workload_id: str
    from_organization_id: str
    to_organization_id: str
    created_at: int
    accepted_at: int | None
    withdrawn_at: int | None


_OPEN: Final = text("accepted_at IS NULL AND withdrawn_at IS NULL")
TRANSFERS: Final = Rows(Transfer, "transfers", Index("open_transfers", "workload_id", unique=True, sqlite_where=_OPEN))


@router.post("/v1/transfers/{id}/accept", response_model=VmRecord, summary="Accept a transfer", openapi_extra=ASSUMED)
def accept_transfer(
    caller: VmWriter, transfer_id: ResourceId, body: OptionalBody[TransferAccept], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers the record; from here on the workload is the receiving organization's, and billed to it."""
    container.check_list("sshKeyIds", body.ssh_key_ids, container.MOST_SSH_KEYS)
    workload = _accept(tx, caller, transfer_id, body.ssh_key_ids)
    return vm_record(workload, tx.now, cloud.gateway_url)


def offer(tx: Tx, workload: Workload, to_organization_id: str) -> str:
    """Offer a workload to another organization, in place of an earlier offer; returns the transfer's id."""
    require_offered(tx, Noun.TRANSFER)
    if workload.status is PodStatus.TERMINATED:
        raise ApiError(409, "It is terminated.")
    if workload.organization_id == to_organization_id:
        raise ApiError(409, "It belongs to that organization already.")
    for earlier in TRANSFERS.all(tx, workload_id=workload.id, accepted_at=None, withdrawn_at=None):
        TRANSFERS.change(tx, earlier.id, withdrawn_at=tx.now)
    made = TRANSFERS.insert(
        tx,
        id=tx.new_id("trf"),
        workload_id=workload.id,
        from_organization_id=workload.organization_id,
        to_organization_id=to_organization_id,
        created_at=tx.now,
    )
    return made.id


def _accept(tx: Tx, caller: Principal, transfer_id: str, ssh_key_ids: list[str]) -> Workload:
    """Give the workload to the caller's organization, with these SSH keys of that organization.

    ApiError 404 unless it was offered to the caller's organization, 410 for a withdrawn offer, 409 if it was accepted
    before, the workload has ended, its name is taken or its node is not for this organization, 422 for unknown keys.
    """
    transfer = _visible(tx, caller, transfer_id)
    workload = workloads.find(tx, transfer.workload_id)
    if workload is None or workload.status is PodStatus.TERMINATED:
        raise ApiError(409, "What was to be transferred is terminated.")
    receiver = transfer.to_organization_id
    admission.require_free_name(tx, receiver, workload.kind, workload.name)
    ssh_keys.require_known(tx, receiver, ssh_key_ids)
    if workload.node_id is not None and not _may_sit(tx, workload, workload.node_id, receiver):
        raise ApiError(409, f"It is on the node {workload.node_id}, which that organization may not use.")
    if workload.status in HOLDS_GPUS - {PodStatus.STOPPING}:
        billing.require_funds(tx, receiver)
    held = workload.gpu_count if workload.status in HOLDS_GPUS else 0
    kept_gb = workloads.kept_gb(workload.kind, workload.volume_gb, workload.disk_size_gb)
    admission.require_quotas(tx, receiver, workload.kind, len(workload.request), held, kept_gb)
    moved = _hand_over(tx, workload, receiver)
    ssh_keys.attach_only(tx, workload.id, ssh_key_ids)
    TRANSFERS.change(tx, transfer_id, accepted_at=tx.now)
    return moved


def _visible(tx: Tx, caller: Principal, transfer_id: str) -> Transfer:
    row = TRANSFERS.find(tx, id=transfer_id)
    if row is None:
        raise not_found("transfer", transfer_id)
    caller.admit(row.to_organization_id, "transfer", transfer_id)
    if row.withdrawn_at is not None:
        raise ApiError(410, "This transfer was withdrawn.")
    if row.accepted_at is not None:
        raise ApiError(409, "This transfer was accepted before.")
    return row


def _may_sit(tx: Tx, workload: Workload, node_id: str, receiver: str) -> bool:
    """Whether the organization may use all units that the workload holds; if it holds none, some unit of its node."""
    held = claims.CLAIMS.all(tx, holder_id=workload.id)
    is_open = nodes.get(tx, node_id).organization_id in {"", receiver}
    if not held:
        is_spot = workload.tier == SPOT
        return is_open or reservations.gives_rights(tx.connection, node_id, receiver, spot=is_spot)
    reserved = {unit.unit: unit.allowed or unit.lent for unit in reservations.of_node(tx.connection, node_id, receiver)}
    return all(reserved.get(claim.unit, is_open) for claim in held)


def _hand_over(tx: Tx, workload: Workload, receiver: str) -> Workload:
    if workload.status in BILLED:
        billing.stop_billing(tx, workload.organization_id, workload.id)
    workloads.WORKLOADS.change(tx, workload.id, organization_id=receiver)
    if workload.out_of_funds_at is not None:
        forget_who_ran_out(tx, workload, None)  # it was the former organization's balance
    moved = workloads.find(tx, workload.id)
    assert moved is not None
    if moved.status in BILLED:
        billing.start_billing(tx, moved.billed)
    return moved
