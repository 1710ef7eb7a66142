"""Secrets at rest: AES-256-GCM under a key that is never in the database, and so in no export.

With `--state` the key is the file `secrets.key` of the state directory, for its owner alone; else it is in memory.
"""

import base64
import binascii
import os
import secrets
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from relay_localcloud.kernel.disk import StateError

KEY_FILE: Final = "secrets.key"

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Unreadable(Exception):
    """This was sealed under another key, or is no sealed secret."""


class Vault:
    """Seals secrets and opens them again. `owner` is what a secret belongs to; it opens for that alone."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def of(cls, directory: Path | None) -> "Vault":
        """The vault of a state directory, None for state in memory; StateError where its key cannot be read or made."""
        if directory is None:
            return cls(secrets.token_bytes(_KEY_BYTES))
        try:
            return cls(_key_at(directory / KEY_FILE))
        except (OSError, ValueError) as error:
            raise StateError(
                f"The key {directory / KEY_FILE} cannot be used: {error}. Without it the secrets of this state cannot "
                "be read: put the key back, or remove the file and recreate what has secrets: registry credentials, "
                "runner pools with a grant, backends with a key."
            ) from error

    def seal(self, secret: str, owner: str) -> str:
        """The secret as it may be kept."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, secret.encode(), owner.encode())).decode()

    def open(self, sealed: str, owner: str) -> str:
        """The secret itself; Unreadable where it was not sealed here for this owner."""
        try:
            raw = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode()).decode()
        except (binascii.Error, InvalidTag, ValueError) as error:
            raise Unreadable from error


def owner_of(organization_id: str, resource_id: str) -> str:
    """What the secret of an organization's resource belongs to."""
    return f"{organization_id}/{resource_id}"


def _key_at(path: Path) -> bytes:
    if not path.exists():
        _write_key(path)
    key = bytes.fromhex(path.read_text(encoding="ascii"))
    if len(key) != _KEY_BYTES:
        raise ValueError(f"it has {len(key)} bytes, a key has {_KEY_BYTES}")
    return key


def _write_key(path: Path) -> None:
    begun = path.with_suffix(".part")  # a process that is killed here must not leave half a key
    begun.unlink(missing_ok=True)
    begun.touch(mode=0o600, exist_ok=False)
    with begun.open("w", encoding="ascii") as file:
        file.write(secrets.token_hex(_KEY_BYTES))
        file.flush()
        os.fsync(file.fileno())
    begun.rename(path)
