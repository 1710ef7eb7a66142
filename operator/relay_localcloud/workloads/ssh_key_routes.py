"""SSH keys registered on the organization (section 4, "VMs and pods"); listing and deleting are assumed."""

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from sqlalchemy import RowMapping, delete, insert

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http import owned
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import admission, attached_keys
from relay_localcloud.workloads.records import vm_record
from relay_localcloud.workloads.workloads import visible
from relay_wire.base import NonEmpty, Sent
from relay_wire.pods import PodStatus
from relay_wire.ssh_keys import SshKey, SshKeyCreate, SshKeyList
from relay_wire.vms import VmRecord

router = Router("SSH keys")

LONGEST_NAME = 200


class SshKeyAttach(Sent):
    """Attach SSH key request (section 2, "misc requests")."""

    ssh_key_id: NonEmpty


@router.post("/v1/orgs/{orgId}/ssh-keys/create", summary="Register an SSH key")
def create_ssh_key(_: ToolingWriter, organization_id: OrganizationId, body: Body[SshKeyCreate], tx: Tx) -> SshKey:
    """Takes an OpenSSH public key; 409 where the organization has one of this name."""
    if len(body.name) > LONGEST_NAME:
        raise ApiError(400, f"name: at most {LONGEST_NAME} characters.")
    if not is_public_key(body.public_key):
        raise ApiError(400, "publicKey: this is no OpenSSH public key, such as `ssh-ed25519 AAAA... you@host`.")
    owned.require_free_name(tx, tables.ssh_keys, organization_id, body.name, "an SSH key")
    values = {
        "id": tx.new_id("ssh"),
        "organization_id": organization_id,
        "name": body.name,
        "public_key": body.public_key,
        "created_at": tx.now,
    }
    statement = insert(tables.ssh_keys).returning(tables.ssh_keys)
    row = tx.connection.execute(statement, values).mappings().one()
    return _shown(row)


@router.get("/v1/orgs/{orgId}/ssh-keys", response_model=SshKeyList, summary="List SSH keys", openapi_extra=ASSUMED)
def list_ssh_keys(_: ToolingReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """Answers `{items}`, oldest first."""
    rows = owned.every(tx, tables.ssh_keys, organization_id)
    return {"items": [_shown(row) for row in rows]}


@router.delete("/v1/orgs/{orgId}/ssh-keys/{id}", status_code=204, summary="Remove an SSH key", openapi_extra=ASSUMED)
def delete_ssh_key(_: ToolingWriter, organization_id: OrganizationId, key_id: ResourceId, tx: Tx) -> None:
    """Answers 204."""
    attached = delete(tables.attached_ssh_keys).where(tables.attached_ssh_keys.c.ssh_key_id == key_id)
    owned.remove(tx, tables.ssh_keys, organization_id, key_id, "SSH key")
    tx.connection.execute(attached)


@router.post(
    "/v1/vms/{id}/ssh-keys/attach", response_model=VmRecord, summary="Attach an SSH key", openapi_extra=ASSUMED
)
def attach_ssh_key(
    caller: VmWriter, workload_id: ResourceId, body: Body[SshKeyAttach], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Takes a key that is registered on the organization, 422 for any other; a second time changes nothing."""
    workload = visible(tx, caller, workload_id)
    if workload.status is PodStatus.TERMINATED:
        raise ApiError(409, "It is terminated.")
    admission.require_ssh_keys(tx, workload.organization_id, [body.ssh_key_id], field="sshKeyId")
    attached_keys.attach(tx, workload.id, [body.ssh_key_id])
    return vm_record(workload, tx.now, cloud.gateway_url)


def is_public_key(text: str) -> bool:
    """Whether this is an OpenSSH public key of a kind that is still in use."""
    try:
        load_ssh_public_key(text.strip().encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _shown(row: RowMapping) -> SshKey:
    return SshKey(id=row["id"], name=row["name"], public_key=row["public_key"], created_at=timestamp(row["created_at"]))
