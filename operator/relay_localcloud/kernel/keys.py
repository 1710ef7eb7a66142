"""The key that secrets at rest are sealed under: a file, in the state directory or elsewhere.

The database has its fingerprint, in a table of its own: it tells of these rows as they lie here, so no export has it.
"""

import os
import secrets
from pathlib import Path
from typing import Final

from relay_localcloud.kernel.disk import StateError
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.kernel.vault import KEY_BYTES, Vault

KEY_FILE: Final = "secrets.key"
_RECREATED: Final = "registry credentials, runner pools that have a grant, and backends that have a key"


def open_vault(store: Store, key_file: Path | None) -> Vault:
    """The vault of a cloud; its key is made if there is none, in memory if neither state nor key is a file.

    StateError if the key cannot be read or made, or secrets are sealed under another one.
    """
    if store.directory is None and key_file is None:
        return Vault(secrets.token_bytes(KEY_BYTES))
    path = key_file or usual(store.directory)
    with store.transaction(at=0) as tx:
        known = fingerprint(tx, store.directory)
        if path.exists():
            vault = read(path)
            require(vault, known, path)
        elif key_file is not None and known is not None:
            raise StateError(
                f"There is no key at {path}, and this state has one: name the file that has it, or, if it was in the "
                f"state directory ({KEY_FILE}), move it there. If it is lost, start without --key-file: {_lost()}"
            )
        else:
            vault = make(path)
        note(tx, vault)
    return vault


def usual(directory: Path | None) -> Path:
    """Where the key of a state is unless it is said."""
    return (directory or Path()) / KEY_FILE


def require(vault: Vault, known: str | None, path: Path) -> None:
    """StateError if secrets are sealed under another key than the one at `path`."""
    if known not in {None, vault.fingerprint}:
        raise StateError(
            f"The secrets of this state are sealed under another key than that at {path}: name the right one with "
            f"--key-file. If it is lost, start without --key-file and without {KEY_FILE} in the state directory: "
            f"{_lost()}"
        )


def fingerprint(tx: Tx, directory: Path | None) -> str | None:
    """That of the key which secrets are sealed under; None for a fresh state.

    A former release noted none: it is the key in the directory then.
    """
    tx.connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS sealed_under (fingerprint TEXT NOT NULL)")
    row = tx.connection.exec_driver_sql("SELECT fingerprint FROM sealed_under").fetchone()
    if row is not None:
        return str(row[0])
    former = usual(directory)
    return read(former).fingerprint if directory is not None and former.exists() else None


def note(tx: Tx, vault: Vault) -> None:
    """From here on, secrets are sealed under this key."""
    tx.connection.exec_driver_sql("DELETE FROM sealed_under")
    tx.connection.exec_driver_sql("INSERT INTO sealed_under VALUES (?)", (vault.fingerprint,))


def read(path: Path) -> Vault:
    """The vault whose key is in this file: 64 hexadecimal digits; StateError if there is none."""
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        raise _unusable(path, str(error)) from error
    if len(key) != KEY_BYTES:
        raise _unusable(path, f"it has {len(key)} bytes, a key has {KEY_BYTES}")
    return Vault(key)


def make(path: Path) -> Vault:
    """The vault of a fresh key, which is in this file from here on, for its owner alone; StateError if it cannot."""
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


def _lost() -> str:
    return f"what has secrets must be recreated then ({_RECREATED})."


def _unusable(path: Path, why: str) -> StateError:
    return StateError(
        f"The key {path} cannot be used: {why}. Without it the secrets of this state cannot be read: put it back. "
        f"If it is lost, remove the file: {_lost()}"
    )
