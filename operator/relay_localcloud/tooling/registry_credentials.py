"""Credentials for private registries: what each kind needs, and how they are kept (section 2, "Registry credential").

The secrets are sealed (`kernel/vault.py`) and opened again where an image would be pulled: when a workload is created
with them. What runs then needs them no more, so a credential may be removed at any time.
"""

import json
from typing import Final

from sqlalchemy import BigInteger, Column, Index, Integer, RowMapping, String, Table, Text, insert

from relay_localcloud.http import owned
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.web_addresses import is_base_address
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Unreadable, Vault, owner_of
from relay_wire.registry_credentials import RegistryCredentialCreate

registry_credentials = Table(
    "registry_credentials",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("name", String, nullable=False),
    Column("server", Text, nullable=False),
    Column("auth_type", String, nullable=False),
    Column("sealed", Text, nullable=False),  # `credentials` as JSON, encrypted
    Column("created_at", BigInteger, nullable=False),
    Index("registry_credential_names", "organization_id", "name", unique=True),
)

LOGIN: Final = ("username", "password")
"""Keys that `basic` needs in `credentials` (assumed); of the other kinds any keys are taken."""

LARGEST_CREDENTIALS: Final = 65_536
"""Characters of all keys and values together (assumed)."""

LONGEST_SERVER: Final = 255


def check(body: RegistryCredentialCreate) -> None:
    """Refuses with 400 what no registry would take; a secret is never quoted."""
    if not _is_server(body.server):
        raise ApiError(400, "server: give the registry's address without credentials in it, such as ghcr.io.")
    if sum(len(key) + len(value) for key, value in body.credentials.items()) > LARGEST_CREDENTIALS:
        raise ApiError(400, f"credentials: at most {LARGEST_CREDENTIALS} characters.")
    if not any(value.strip() for value in body.credentials.values()):
        raise ApiError(400, f"credentials: give what {body.auth_type} logs in with.")
    missing = [key for key in LOGIN if not body.credentials.get(key, "").strip()]
    if body.auth_type == "basic" and missing:
        raise ApiError(400, f"credentials.{missing[0]}: is missing; basic takes {' and '.join(LOGIN)}.")


def create(tx: Tx, vault: Vault, organization_id: str, body: RegistryCredentialCreate) -> RowMapping:
    """Keep a credential that was checked; ApiError 409 where its name is taken."""
    owned.require_free_name(tx, registry_credentials, organization_id, body.name, "a registry credential")
    credential_id = tx.new_id("rcr")
    values = {
        "id": credential_id,
        "organization_id": organization_id,
        "name": body.name,
        "server": body.server,
        "auth_type": body.auth_type,
        "sealed": vault.seal(json.dumps(body.credentials), owner_of(organization_id, credential_id)),
        "created_at": tx.now,
    }
    statement = insert(registry_credentials).returning(registry_credentials)
    return tx.connection.execute(statement, values).mappings().one()


def rows_of(tx: Tx, organization_id: str) -> list[RowMapping]:
    """Every credential of an organization, the oldest first."""
    return owned.every(tx, registry_credentials, organization_id)


def remove(tx: Tx, organization_id: str, credential_id: str) -> None:
    """Forget a credential; ApiError 404 where the organization has none of this id."""
    owned.remove(tx, registry_credentials, organization_id, credential_id, "registry credential")


def require_usable(tx: Tx, vault: Vault, organization_id: str, credential_id: str | None) -> None:
    """Refuses with 422 a credential that the organization does not have, or whose secrets cannot be read here."""
    if credential_id is None:
        return
    row = owned.find(tx, registry_credentials, organization_id, credential_id)
    if row is None:
        raise ApiError(422, f"registryCredentialId: this organization has no credential {credential_id!r}.")
    try:
        vault.open(row["sealed"], owner_of(organization_id, credential_id))
    except Unreadable:
        raise ApiError(
            422,
            f"registryCredentialId: the secrets of {credential_id!r} were encrypted under another key than the one of "
            "this state, as after an import from elsewhere: remove the credential and make it anew.",
        ) from None


def _is_server(server: str) -> bool:
    return len(server) <= LONGEST_SERVER and is_base_address(server if "://" in server else f"https://{server}")
