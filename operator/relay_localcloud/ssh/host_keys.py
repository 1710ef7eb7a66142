"""The host key of the SSH gateway: part of the state, and encrypted like other secrets.

It survives restarts, backups, resets, and imports of states that were encrypted under this cloud's key. An import
encrypted under another key brings a host key that cannot be decrypted here, so the cloud keeps its own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_private_key,
)

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Unreadable, Vault, owner_of

_ED25519: Final = "ssh-ed25519"


@dataclass(frozen=True, slots=True)
class HostKey:
    """An encrypted private key; its id is its algorithm."""

    id: str
    sealed: str

    @property
    def organization_id(self) -> str:
        """Empty: the key belongs to the platform, not to an organization."""
        return ""


HOST_KEYS: Final = Rows(HostKey, "ssh_host_keys", key=("id",), order="id")


def private_key(tx: Tx, vault: Vault) -> str:
    """The private key in OpenSSH format; created if there is none that can be decrypted."""
    kept = _opened(tx, vault)
    if kept is not None:
        return kept
    fresh = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    HOST_KEYS.put(tx, id=_ED25519, sealed=vault.seal(fresh, owner_of("", _ED25519)))
    return fresh


def public_key(private: str) -> str:
    """The public key as in a line of known_hosts, after the host."""
    public = load_ssh_private_key(private.encode(), None).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@contextmanager
def kept(tx: Tx, vault: Vault) -> Iterator[None]:
    """A context for replacing the state: restores the present key unless the new state has one that decrypts."""
    own = HOST_KEYS.find(tx, id=_ED25519)
    yield
    if own is not None and _opened(tx, vault) is None:
        HOST_KEYS.put(tx, id=own.id, sealed=own.sealed)


def _opened(tx: Tx, vault: Vault) -> str | None:
    row = HOST_KEYS.find(tx, id=_ED25519)
    try:
        return None if row is None else vault.open(row.sealed, owner_of(row.organization_id, row.id))
    except Unreadable:
        return None
