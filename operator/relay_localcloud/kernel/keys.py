"""The key that seals secrets at rest: a file, in the state directory or elsewhere.

The database keeps the key's fingerprint in a table of its own, which is not exported: it concerns these rows only.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from relay_localcloud.kernel.disk import StateError
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.kernel.vault import KEY_BYTES, Vault

KEY_FILE: Final = "secrets.key"
LOST: Final = (
    "relay-localcloud rotate-key --lost gives the state another key: what has secrets must be recreated then (registry "
    "credentials, runner pools that have a grant, and backends that have a key)."
)


def open_vault(store: Store, key_file: Path | None) -> Vault:
    """The vault of a cloud; creates a missing key, in memory if neither the state nor the key is a file.

    Raises StateError if the key cannot be read or created, or if secrets are sealed under another key.
    """
    if store.directory is None and key_file is None:
        return Vault(secrets.token_bytes(KEY_BYTES))
    path = key_file or usual(store.directory)
    with store.transaction(at=0) as tx:
        known = fingerprint(tx, store.directory)
        if path.exists():
            vault = read(path)
            require(vault, known, path)
        elif known is not None:
            raise StateError(
                f"There is no key at {path}, and this state has one: name the file that has it with --key-file, or put "
                f"it back. If it is lost, {LOST}"
            )
        else:
            vault = make(path)
        note(tx, vault)
    return vault


def usual(directory: Path | None) -> Path:
    """The default path of a state's key."""
    return (directory or Path()) / KEY_FILE


def require(vault: Vault, known: str | None, path: Path) -> None:
    """Raise StateError if secrets are sealed under another key than the one at `path`."""
    if known not in {None, vault.fingerprint}:
        raise StateError(
            f"The secrets of this state are sealed under another key than that at {path}: name the right one with "
            f"--key-file. If it is lost, {LOST}"
        )


def fingerprint(tx: Tx, directory: Path | None) -> str | None:
    """The fingerprint of the key that secrets are sealed under; None for a fresh state.

    A former release recorded none: then it is the fingerprint of the key in the directory.
    """
    tx.connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS sealed_under (fingerprint TEXT NOT NULL)")
    row = tx.connection.exec_driver_sql("SELECT fingerprint FROM sealed_under").fetchone()
    if row is not None:
        return str(row[0])
    former = usual(directory)
    return read(former).fingerprint if directory is not None and former.exists() else None


def note(tx: Tx, vault: Vault) -> None:
    """Record this key as the one that secrets are sealed under."""
    tx.connection.exec_driver_sql("DELETE FROM sealed_under")
    tx.connection.exec_driver_sql("INSERT INTO sealed_under VALUES (?)", (vault.fingerprint,))


def read(path: Path) -> Vault:
    """The vault whose key is in this file: 64 hexadecimal digits; raises StateError if the file has none."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise _unusable(path, str(error)) from error
    if len(key) != KEY_BYTES:
        raise _unusable(path, f"it has {len(key)} bytes, a key has {KEY_BYTES}")
    return Vault(key)


def make(path: Path) -> Vault:
    """Create a key in this file, private to its owner, and return its vault; raises StateError if that fails."""
    begun = path.with_name(f"{path.name}.part")  # a process that is killed here must not leave half a key
    key = secrets.token_bytes(KEY_BYTES)
    try:
        begun.unlink(missing_ok=True)
        begun.touch(mode=0o600, exist_ok=False)
        with begun.open("w", encoding="ascii") as file:
            file.write(key.hex())
            file.flush()
            os.fsync(file.fileno())
        begun.rename(path)
        _keep_name(path.parent)
    except OSError as error:
        raise StateError(f"No key can be made at {path}: {error}: name another place.") from error
    return Vault(key)


def _keep_name(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unusable(path: Path, why: str) -> StateError:
    return StateError(
        f"The key {path} cannot be used: {why}. Without it the secrets of this state cannot be read: put it back. "
        f"If it is lost, {LOST}"
    )
