"""Credentials for private registries: what each kind needs, and how they are stored (sections 2 and 4).

The secrets are encrypted (`kernel/vault.py`), and decrypted when a workload is created with them and, on Kubernetes,
when a replica first gets a Pod, since its image is pulled then. A running container does not need them, so a credential
may be removed at any time; replicas created after that pull without it.
"""

import json
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pydantic_core import from_json
from sqlalchemy import Index

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.bodies import Answer, Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, ResourceId, ToolingReader, ToolingWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Unreadable, Vault, owner_of
from relay_localcloud.quotas import quotas
from relay_wire.registry_credentials import RegistryCredential, RegistryCredentialCreate, RegistryCredentialList

router = Router("Registry credentials")


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential; what it logs in with is encrypted."""

    sequence: int
    id: str
    organization_id: str
    name: str
    server: str
    auth_type: str
    sealed: str  # `credentials` as JSON, encrypted
    created_at: int


CREDENTIALS: Final = Rows(
    Credential, "registry_credentials", Index("registry_credential_names", "organization_id", "name", unique=True)
)


@dataclass(frozen=True, slots=True)
class Login:
    """The login of a kubelet at a registry."""

    server: str
    username: str = field(repr=False)
    password: str = field(repr=False)


LOGIN: Final = ("username", "password")
"""Keys that `basic` requires in `credentials` (assumed); the other kinds accept any keys."""

LARGEST_CREDENTIALS: Final = 65_536
"""Characters of all keys and values together (assumed)."""

LONGEST_SERVER: Final = 255


@router.post("/v1/orgs/{orgId}/registry-credentials/create", summary="Create a registry credential")
def create_registry_credential(
    _: ToolingWriter, organization_id: OrganizationId, body: Body[RegistryCredentialCreate], cloud: CurrentCloud, tx: Tx
) -> RegistryCredential:
    """Answers the credential without its secrets; 409 if the organization has one of this name."""
    _check(body)
    named = {"organization_id": organization_id, "name": body.name}
    if CREDENTIALS.find(tx, **named) is not None:
        raise ApiError(409, f"There is a registry credential {body.name!r} already.")
    quotas.require(tx, organization_id, {quotas.REGISTRY_CREDENTIALS: 1})
    new_id = tx.new_id("rcr")
    sealed = cloud.vault.seal(json.dumps(body.credentials), owner_of(organization_id, new_id))
    given = {"server": body.server, "auth_type": body.auth_type, "sealed": sealed}
    return _shown(CREDENTIALS.insert(tx, id=new_id, **named, **given, created_at=tx.now))


@router.get(
    "/v1/orgs/{orgId}/registry-credentials", response_model=RegistryCredentialList, summary="List registry credentials"
)
def list_registry_credentials(_: ToolingReader, organization_id: OrganizationId, page: PageRequest, tx: Tx) -> Answer:
    """Answers a page, oldest first, without secrets."""
    rows = partial(CREDENTIALS.after, tx, organization_id=organization_id)
    return page.oldest("registry credentials", organization_id, rows, _shown)


@router.delete("/v1/orgs/{orgId}/registry-credentials/{id}", summary="Remove a registry credential")
def delete_registry_credential(
    _: ToolingWriter, organization_id: OrganizationId, credential_id: ResourceId, tx: Tx
) -> None:
    """Removes the credential; workloads created with it go on."""
    if not CREDENTIALS.remove(tx, id=credential_id, organization_id=organization_id):
        raise not_found("registry credential", credential_id)


def require_usable(tx: Tx, vault: Vault, organization_id: str, credential_id: str | None) -> int:
    """The bytes of the secrets of a credential, which every replica gets a copy of; 0 without a credential.

    Refuses with 422 one that the organization does not have or whose secrets cannot be decrypted here; if images are
    really pulled, also one without a user name and password.
    """
    if credential_id is None:
        return 0
    row = CREDENTIALS.find(tx, id=credential_id, organization_id=organization_id)
    if row is None:
        raise ApiError(422, f"registryCredentialId: this organization has no credential {credential_id!r}.")
    try:
        logs_in = _login(row, vault) is not None
    except Unreadable:
        raise ApiError(
            422,
            f"registryCredentialId: the secrets of {credential_id!r} were encrypted under another key than the one of "
            "this state, as after an import from elsewhere: remove the credential and create it again.",
        ) from None
    if tx.runtime.reports_by_itself and not logs_in:
        raise ApiError(
            422,
            f"registryCredentialId: images are really pulled here, and for that {credential_id!r} needs the "
            f"credentials {' and '.join(LOGIN)}; those of ECR and GCR are what their tools print for docker login.",
        )
    return len(row.sealed)


def login(tx: Tx, vault: Vault, organization_id: str, credential_id: str | None) -> Login | None:
    """The login of a credential; None if it was removed, cannot be decrypted here, or has no user name and password."""
    row = None
    if credential_id is not None:
        row = CREDENTIALS.find(tx, id=credential_id, organization_id=organization_id)
    try:
        return None if row is None else _login(row, vault)
    except Unreadable:
        return None


def _login(row: Credential, vault: Vault) -> Login | None:
    """None if the secrets have no user name and password. Raises Unreadable if they cannot be decrypted here."""
    secrets = from_json(vault.open(row.sealed, owner_of(row.organization_id, row.id)))
    if not all(secrets.get(key) for key in LOGIN):
        return None
    return Login(row.server, *(secrets[key] for key in LOGIN))


def _is_server(server: str) -> bool:
    return len(server) <= LONGEST_SERVER and is_base_address(server if "://" in server else f"https://{server}")


def _check(body: RegistryCredentialCreate) -> None:
    """Refuse with 400 what no registry would accept; messages never quote a secret."""
    if not _is_server(body.server):
        raise ApiError(400, "server: give the registry's address without credentials in it, such as ghcr.io.")
    if sum(len(key) + len(value) for key, value in body.credentials.items()) > LARGEST_CREDENTIALS:
        raise ApiError(400, f"credentials: at most {LARGEST_CREDENTIALS} characters.")
    if not any(value.strip() for value in body.credentials.values()):
        raise ApiError(400, f"credentials: give what {body.auth_type} logs in with.")
    missing = [key for key in LOGIN if not body.credentials.get(key, "").strip()]
    if body.auth_type == "basic" and missing:
        raise ApiError(400, f"credentials.{missing[0]}: is missing; basic takes {' and '.join(LOGIN)}.")


def _shown(row: Credential) -> RegistryCredential:
    return RegistryCredential.model_validate(shown(row))
