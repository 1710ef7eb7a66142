"""Real servers that an organization registered behind a model, which is there for it as long as there is one."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    RowMapping,
    String,
    Table,
    Text,
    bindparam,
    insert,
    select,
    update,
)

from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault, owner_of
from relay_wire.inference import BackendAuth, BackendCreate, BackendUpdate

BUILT_IN_ENDPOINT: Final = "local://built-in"

inference_backends = Table(
    "inference_backends",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("model_id", String, nullable=False),
    Column("provider", String, nullable=False),
    Column("ref", Text, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("native_families", Text, nullable=False),  # a JSON array
    Column("auth", String, nullable=False),
    Column("api_key", Text),  # plain, in rows of former states until they are opened; `seal_keys`
    Column("transport", String, nullable=False),
    Column("weight", BigInteger, nullable=False),
    Column("max_concurrency", BigInteger, nullable=False),  # 0: no cap
    Column("created_at", BigInteger, nullable=False),
    Column("sealed_key", Text),  # encrypted (`kernel/vault.py`)
    Index("backends_of_model", "organization_id", "model_id", "sequence"),
)

_of_organization = select(inference_backends).where(inference_backends.c.organization_id == bindparam("organization"))
_BEHIND = Prepared(
    select(
        inference_backends.c.id,
        inference_backends.c.ref,
        inference_backends.c.endpoint,
        inference_backends.c.native_families,
        inference_backends.c.auth,
        inference_backends.c.sealed_key,
        inference_backends.c.weight,
        inference_backends.c.max_concurrency,
    )
    .where(
        inference_backends.c.organization_id == bindparam("organization"),
        inference_backends.c.model_id == bindparam("model"),
    )
    .order_by(inference_backends.c.sequence)
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server over the network behind a model; `endpoint` is the base address including /v1."""

    id: str
    ref: str
    endpoint: str
    apis: frozenset[str]
    auth: BackendAuth
    weight: int
    max_concurrency: int
    sealed_key: str | None = field(default=None, repr=False)
    key_owner: str = ""  # whom the key opens for (`kernel/vault.py`)


def behind(tx: Tx, organization_id: str, model_id: str) -> list[Server]:
    """The servers behind a model of an organization, oldest first."""
    rows = _BEHIND.run(tx.connection, organization=organization_id, model=model_id).fetchall()
    return [
        Server(i, ref, endpoint, frozenset(json.loads(apis)), auth, weight, cap, sealed, owner_of(organization_id, i))
        for i, ref, endpoint, apis, auth, sealed, weight, cap in rows
    ]


def rows_of(tx: Tx, organization_id: str, model_id: str | None = None) -> Sequence[RowMapping]:
    """The registered backends of an organization, of one model or of all, oldest first."""
    query = _of_organization.order_by(inference_backends.c.sequence)
    if model_id is not None:
        query = query.where(inference_backends.c.model_id == model_id)
    return tx.connection.execute(query, {"organization": organization_id}).mappings().all()


def add(tx: Tx, vault: Vault, organization_id: str, model_id: str, asked: BackendCreate) -> str:
    """Register a backend; its id."""
    backend_id = tx.new_id("bke")
    values = {
        "id": backend_id,
        "organization_id": organization_id,
        "model_id": model_id,
        "provider": asked.provider,
        "ref": asked.ref,
        "endpoint": asked.endpoint,
        "native_families": json.dumps(asked.native_families),
        "auth": asked.auth,
        "sealed_key": _sealed(vault, organization_id, backend_id, asked.api_key),
        "transport": asked.transport,
        "weight": asked.weight,
        "max_concurrency": asked.max_concurrency or 0,
        "created_at": tx.now,
    }
    tx.connection.execute(insert(inference_backends), values)
    return backend_id


def change(tx: Tx, vault: Vault, organization_id: str, backend_id: str, asked: BackendUpdate) -> None:
    """Change what is given of a backend; requests that are under way end as they would have."""
    values: dict[str, object] = asked.model_dump(by_alias=False, exclude_none=True, exclude={"api_key"})
    if asked.native_families is not None:
        values["native_families"] = json.dumps(asked.native_families)
    if asked.api_key is not None:
        values["sealed_key"] = _sealed(vault, organization_id, backend_id, asked.api_key)
    if values:
        of_id = inference_backends.c.id == backend_id
        tx.connection.execute(update(inference_backends).where(of_id).values(values))


def seal_keys(tx: Tx, vault: Vault) -> None:
    """Encrypt the keys that a state of a former release has in plain text."""
    b = inference_backends.c
    plain = select(b.id, b.organization_id, b.api_key).where(b.api_key.is_not(None))
    found = tx.connection.execute(plain).all()
    if found:
        tx.connection.exec_driver_sql("PRAGMA secure_delete=ON")  # else free pages of the file keep the plain text
    for backend_id, organization_id, api_key in found:
        sealed = _sealed(vault, organization_id, backend_id, api_key)
        change = update(inference_backends).where(b.id == backend_id)
        tx.connection.execute(change.values(sealed_key=sealed, api_key=None))


def _sealed(vault: Vault, organization_id: str, backend_id: str, api_key: str | None) -> str | None:
    return None if api_key is None else vault.seal(api_key, owner_of(organization_id, backend_id))
