"""Secrets at rest: AES-256-GCM under a key that is never in the database, and so never in an export.

`kernel/keys.py` manages the key files.
"""

import base64
import binascii
import hashlib
import secrets
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class Unreadable(Exception):
    """The secret was sealed under another key, or is not a sealed secret."""


class Vault:
    """Seals and opens secrets. `owner` is what a secret belongs to; it opens for that owner only."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self.fingerprint = hashlib.sha256(b"relay-localcloud key " + key).hexdigest()[:16]
        """Identifies the key, and reveals nothing about it."""

    def seal(self, secret: str, owner: str) -> str:
        """The secret in sealed form, for storage."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, secret.encode(), owner.encode())).decode()

    def open(self, sealed: str, owner: str) -> str:
        """The secret itself; raises Unreadable if it was not sealed here for this owner."""
        try:
            raw = base64.b64decode(sealed, validate=True)
            return self._cipher.decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], owner.encode()).decode()
        except (binascii.Error, InvalidTag, ValueError) as error:
            raise Unreadable from error


def owner_of(organization_id: str, resource_id: str) -> str:
    """The `owner` of a secret of an organization's resource."""
    return f"{organization_id}/{resource_id}"
