"""Credentials for private registries: what each kind needs, and how they are kept (section 2, "Registry credential").

The secrets are sealed (`vault.py`) and opened again where an image would be pulled: when a workload is created with
them. What runs then needs them no more, so a credential may be removed at any time.
"""

import json
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from pydantic_core import from_json
from sqlalchemy import BigInteger, Column, Index, Integer, RowMapping, String, Table, Text, delete, insert, select

from relay_localcloud.errors import ApiError, not_found
from relay_localcloud.schema import metadata
from relay_localcloud.store import Tx
from relay_localcloud.vault import Unreadable, Vault
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

REQUIRED_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "basic": ("username", "password"),
    "aws_ecr": ("accessKeyId", "secretAccessKey"),
    "gcp_gcr": ("serviceAccountKey",),
}
"""What a login takes, by `authType`: names of keys in `credentials` (assumed); more keys are kept as well.

ECR's password is had with an access key; Google's registries take the JSON key of a service account.
"""

LARGEST_CREDENTIALS: Final = 65_536
"""Characters of all keys and values together (assumed)."""

LONGEST_SERVER: Final = 255


def check(body: RegistryCredentialCreate) -> None:
    """Refuses with 400 what no registry would take; a secret is never quoted."""
    if not _is_server(body.server):
        raise ApiError(400, "server: give the registry's address without credentials in it, such as ghcr.io.")
    if sum(len(key) + len(value) for key, value in body.credentials.items()) > LARGEST_CREDENTIALS:
        raise ApiError(400, f"credentials: at most {LARGEST_CREDENTIALS} characters.")
    given = {_folded(key): value for key, value in body.credentials.items()}
    for key in REQUIRED_KEYS[body.auth_type]:
        if not given.get(_folded(key), "").strip():
            needed = " and ".join(REQUIRED_KEYS[body.auth_type])
            raise ApiError(400, f"credentials.{key}: is missing; {body.auth_type} takes {needed}.")
    if body.auth_type == "gcp_gcr" and not _is_service_account_key(given[_folded("serviceAccountKey")]):
        raise ApiError(
            400, "credentials.serviceAccountKey: this is no service account key, a JSON object with client_email."
        )


def create(tx: Tx, vault: Vault, organization_id: str, body: RegistryCredentialCreate) -> RowMapping:
    """Keep a credential that was checked; ApiError 409 where its name is taken."""
    credential = registry_credentials.c
    clash = select(credential.id).where(credential.organization_id == organization_id, credential.name == body.name)
    if tx.connection.execute(clash).first() is not None:
        raise ApiError(409, f"There is a registry credential {body.name!r} already.")
    credential_id = tx.new_id("rcr")
    values = {
        "id": credential_id,
        "organization_id": organization_id,
        "name": body.name,
        "server": body.server,
        "auth_type": body.auth_type,
        "sealed": vault.seal(json.dumps(body.credentials), _owner(organization_id, credential_id)),
        "created_at": tx.now,
    }
    statement = insert(registry_credentials).returning(registry_credentials)
    return tx.connection.execute(statement, values).mappings().one()


def rows_of(tx: Tx, organization_id: str) -> list[RowMapping]:
    """Every credential of an organization, the oldest first."""
    query = select(registry_credentials).where(registry_credentials.c.organization_id == organization_id)
    return list(tx.connection.execute(query.order_by(registry_credentials.c.sequence)).mappings())


def remove(tx: Tx, organization_id: str, credential_id: str) -> None:
    """Forget a credential; ApiError 404 where the organization has none of this id."""
    credential = registry_credentials.c
    removal = delete(registry_credentials).where(
        credential.id == credential_id, credential.organization_id == organization_id
    )
    if tx.connection.execute(removal).rowcount == 0:
        raise not_found("registry credential", credential_id)


def require_usable(tx: Tx, vault: Vault, organization_id: str, credential_id: str | None) -> None:
    """Refuses with 422 a credential that the organization does not have, or whose secrets cannot be read here."""
    if credential_id is None:
        return
    credential = registry_credentials.c
    query = select(registry_credentials).where(
        credential.id == credential_id, credential.organization_id == organization_id
    )
    row = tx.connection.execute(query).mappings().first()
    if row is None:
        raise ApiError(422, f"registryCredentialId: this organization has no credential {credential_id!r}.")
    try:
        vault.open(row["sealed"], _owner(organization_id, credential_id))
    except Unreadable:
        raise ApiError(
            422,
            f"registryCredentialId: the secrets of {credential_id!r} were encrypted under another key than the one of "
            "this state, as after an import from elsewhere: remove the credential and make it anew.",
        ) from None


def _owner(organization_id: str, credential_id: str) -> str:
    return f"{organization_id}/{credential_id}"


def _folded(key: str) -> str:
    """One spelling for `secretAccessKey`, `secret_access_key` and `AWS_SECRET_ACCESS_KEY`."""
    return re.sub(r"[^a-z0-9]", "", key.lower()).removeprefix("aws")


def _is_server(server: str) -> bool:
    if len(server) > LONGEST_SERVER or not server.isascii() or not server.isprintable() or " " in server:
        return False
    try:
        parts = urlsplit(server if "://" in server else f"https://{server}")
        port = parts.port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc and port != 0


def _is_service_account_key(text: str) -> bool:
    try:
        key = from_json(text)
    except ValueError:
        return False
    return isinstance(key, dict) and bool(key.get("client_email"))
