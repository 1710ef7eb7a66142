"""Real servers that an organization registered for a model; the model exists for it while it has one."""

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Index

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault, owner_of
from relay_localcloud.runtimes.runtime import Way
from relay_wire.inference import BackendAuth, BackendCreate, BackendUpdate

BUILT_IN_ENDPOINT: Final = "local://built-in"


@dataclass(frozen=True, slots=True)
class Server:
    """A server for a model, reached over the network; `endpoint` is the base address including /v1."""

    id: str
    ref: str
    endpoint: str
    apis: frozenset[str]
    auth: BackendAuth
    weight: int
    max_concurrency: int
    sealed_key: str | None = field(default=None, repr=False)
    key_owner: str = ""  # the owner that the key is sealed for (`kernel/vault.py`)
    way: Way | None = None  # to the container that it is, which `reach` does not limit


@dataclass(frozen=True, slots=True)
class Registered:
    """A server as an organization registered it."""

    sequence: int
    id: str
    organization_id: str
    model_id: str
    provider: str
    ref: str
    endpoint: str
    native_families: tuple[str, ...]
    auth: BackendAuth
    transport: str
    weight: int
    max_concurrency: int  # 0: no cap
    created_at: int
    api_key: str | None = field(default=None, repr=False)  # plain, in states of former releases until opened
    sealed_key: str | None = field(default=None, repr=False)  # encrypted (`kernel/vault.py`)

    @property
    def server(self) -> Server:
        """The server to send requests to."""
        families, owner = frozenset(self.native_families), owner_of(self.organization_id, self.id)
        shared = (self.auth, self.weight, self.max_concurrency)
        return Server(self.id, self.ref, self.endpoint, families, *shared, self.sealed_key, owner)


BACKENDS: Final = Rows(
    Registered, "inference_backends", Index("backends_of_model", "organization_id", "model_id", "sequence")
)


def add(tx: Tx, vault: Vault, organization_id: str, model_id: str, asked: BackendCreate) -> Registered:
    """Register a backend."""
    return BACKENDS.insert(
        tx,
        id=(backend_id := tx.new_id("bke")),
        organization_id=organization_id,
        model_id=model_id,
        created_at=tx.now,
        **_kept(vault, organization_id, backend_id, asked) | {"max_concurrency": asked.max_concurrency or 0},
    )


def change(tx: Tx, vault: Vault, backend: Registered, asked: BackendUpdate) -> Registered:
    """Change the given fields of a backend; requests under way are not affected."""
    values = _kept(vault, backend.organization_id, backend.id, asked)
    return BACKENDS.changed(tx, backend, **values) if values else backend


def seal_keys(tx: Tx, vault: Vault) -> None:
    """Encrypt the keys that a state from a former release has in plain text."""
    found = BACKENDS.all(tx, BACKENDS.columns["api_key"].is_not(None))
    if found:
        tx.connection.exec_driver_sql("PRAGMA secure_delete=ON")  # otherwise free pages keep the plain text
    for each in found:
        sealed = vault.seal(each.api_key or "", owner_of(each.organization_id, each.id))
        BACKENDS.change(tx, each.id, sealed_key=sealed, api_key=None)


def _kept(
    vault: Vault, organization_id: str, backend_id: str, asked: BackendCreate | BackendUpdate
) -> dict[str, object]:
    """The fields of a request, as the table stores them."""
    values: dict[str, object] = asked.model_dump(by_alias=False, exclude_none=True, exclude={"api_key"})
    if asked.native_families is not None:
        values["native_families"] = tuple(asked.native_families)
    if asked.api_key is not None:
        values["sealed_key"] = vault.seal(asked.api_key, owner_of(organization_id, backend_id))
    return values
