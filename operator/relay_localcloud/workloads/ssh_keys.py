"""SSH keys that an organization has registered, and the workloads that have them (section 4, "VMs and pods").

Listing and deleting are assumed.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from sqlalchemy import ForeignKeyConstraint, UniqueConstraint

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.names import require_name
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.workloads.records import vm_record
from relay_localcloud.workloads.workloads import visible
from relay_wire.pods import PodStatus
from relay_wire.ssh_keys import SshKey, SshKeyAttach, SshKeyCreate, SshKeyList
from relay_wire.vms import VmRecord

router = Router("SSH keys")


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A registered key."""

    id: str
    organization_id: str
    name: str
    public_key: str
    created_at: int


@dataclass(frozen=True, slots=True)
class AttachedKey:
    """A key that is attached to a workload (section 2, "Attach SSH key")."""

    workload_id: str
    ssh_key_id: str
    attached_at: int


KEYS: Final = Rows(
    KeyRow,
    "ssh_keys",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    UniqueConstraint("organization_id", "name"),
    key=("id",),
)
ATTACHED: Final = Rows(
    AttachedKey,
    "attached_ssh_keys",
    ForeignKeyConstraint(["ssh_key_id"], ["ssh_keys.id"]),
    key=("workload_id", "ssh_key_id"),
)


@router.post("/v1/orgs/{orgId}/ssh-keys/create", summary="Register an SSH key")
def create_ssh_key(_: ToolingWriter, organization_id: OrganizationId, body: Body[SshKeyCreate], tx: Tx) -> SshKey:
    """Takes an OpenSSH public key; 409 if the organization has one of this name."""
    return _shown(add_key(tx, organization_id, body))


def add_key(tx: Tx, organization_id: str, body: SshKeyCreate) -> KeyRow:
    """Register a key; ApiError as the operation answers it."""
    require_name(body.name)
    if not is_public_key(body.public_key):
        raise ApiError(400, "publicKey: this is not an OpenSSH public key, such as `ssh-ed25519 AAAA... you@host`.")
    named = {"organization_id": organization_id, "name": body.name}
    if KEYS.find(tx, **named) is not None:
        raise ApiError(409, f"There is an SSH key {body.name!r} already.")
    quotas.require(tx, organization_id, {quotas.SSH_KEYS: 1})
    return KEYS.insert(tx, id=tx.new_id("ssh"), **named, public_key=body.public_key, created_at=tx.now)


@router.get("/v1/orgs/{orgId}/ssh-keys", response_model=SshKeyList, summary="List SSH keys", openapi_extra=ASSUMED)
def list_ssh_keys(_: ToolingReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers a page, oldest first."""
    rows = partial(KEYS.after, tx, organization_id=organization_id)
    return page.oldest("SSH keys", organization_id, rows, _shown)


@router.delete("/v1/orgs/{orgId}/ssh-keys/{id}", status_code=204, summary="Remove an SSH key", openapi_extra=ASSUMED)
def delete_ssh_key(_: ToolingWriter, organization_id: OrganizationId, key_id: ResourceId, tx: Tx) -> None:
    """Answers 204."""
    remove_key(tx, organization_id, key_id)


def remove_key(tx: Tx, organization_id: str, key_id: str) -> None:
    """Remove a key from the organization and from all workloads; ApiError 404 if the organization has no such key."""
    if not KEYS.remove(tx, id=key_id, organization_id=organization_id):
        raise not_found("SSH key", key_id)
    ATTACHED.remove(tx, ssh_key_id=key_id)


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
    require_known(tx, workload.organization_id, [body.ssh_key_id], field="sshKeyId")
    attach(tx, workload.id, [body.ssh_key_id])
    return vm_record(workload, tx.now, cloud.gateway_url)


def require_known(tx: Tx, organization_id: str, key_ids: Collection[str], field: str = "sshKeyIds") -> None:
    """Refuse with 422 SSH keys that the organization did not register."""
    unknown = set(key_ids) - {row.id for row in KEYS.all(tx, organization_id=organization_id)} if key_ids else set()
    if unknown:
        raise ApiError(422, f"{field}: this organization has no key {min(unknown)!r}.")


def attach(tx: Tx, workload_id: str, key_ids: Collection[str]) -> None:
    """Attach further keys to a workload; one that is attached already does not change."""
    for key_id in key_ids:
        ATTACHED.add(tx, workload_id=workload_id, ssh_key_id=key_id, attached_at=tx.now)


def attach_only(tx: Tx, workload_id: str, key_ids: Collection[str]) -> None:
    """Attach these keys to a workload in place of all others."""
    ATTACHED.remove(tx, workload_id=workload_id)
    attach(tx, workload_id, key_ids)


def is_public_key(text: str) -> bool:
    """Whether this is one OpenSSH public key, of a type that is still in use."""
    key = text.strip()
    if len(key.splitlines()) > 1:  # only the first line would be read
        return False
    try:
        load_ssh_public_key(key.encode())
    except (ValueError, UnsupportedAlgorithm, NotImplementedError):  # the last for a compressed point of a curve
        return False
    return True


def _shown(row: KeyRow) -> SshKey:
    return SshKey.model_validate(shown(row, "id", "name", "public_key", "created_at"))
