"""Transfers of pods and VMs between organizations (section 2, "Accept transfer"); the path is assumed."""

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import OptionalBody
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import container, transfers
from relay_localcloud.workloads.records import vm_record
from relay_wire.transfers import TransferAccept
from relay_wire.vms import VmRecord

router = Router("Transfers")


@router.post("/v1/transfers/{id}/accept", response_model=VmRecord, summary="Accept a transfer", openapi_extra=ASSUMED)
def accept_transfer(
    caller: VmWriter, transfer_id: ResourceId, body: OptionalBody[TransferAccept], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers the record; from here on the workload is the receiving organization's, and billed to it."""
    container.check_list("sshKeyIds", body.ssh_key_ids, container.MOST_SSH_KEYS)
    workload = transfers.accept(tx, caller, transfer_id, body.ssh_key_ids)
    return vm_record(workload, tx.now, cloud.gateway_url)
