"""`relay-localcloud rotate-key`: seals the secrets of a state under another key, while no cloud serves it.

One transaction seals all of them again and records the key. So however it ends, the secrets are under the former key,
or under the other one, which is on the disk before; running it again completes it.
"""

import json
import sys
from argparse import Namespace
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from relay_localcloud import app  # noqa: F401 - no state is opened without every table
from relay_localcloud.kernel import disk, keys
from relay_localcloud.kernel.disk import StateError
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.kernel.vault import Unreadable, Vault, owner_of
from relay_localcloud.models.backends import BACKENDS
from relay_localcloud.ssh.host_keys import HOST_KEYS
from relay_localcloud.tooling.registry_credentials import CREDENTIALS
from relay_localcloud.tooling.runner_pools import POOLS

SEALED: Final[tuple[tuple[Rows[Any], str], ...]] = (
    (CREDENTIALS, "sealed"),
    (POOLS, "sealed_grant"),
    (BACKENDS, "sealed_key"),
    (HOST_KEYS, "sealed"),
)
"""Every field that a vault seals, in rows with an `id` and an `organization_id`."""


def start(chosen: Namespace) -> int:
    """Rotate as the command line says; returns 0 with a line of JSON on stdout, 1 with a sentence on stderr."""
    try:
        if chosen.lost:
            sealed = give_up(chosen.state, chosen.new_key_file)
        else:
            sealed = rotate(chosen.state, chosen.key_file or keys.usual(chosen.state), chosen.new_key_file)
    except StateError as error:
        sys.stderr.write(f"relay-localcloud: {error}\n")
        return 1
    sys.stdout.write(json.dumps({"keyFile": str(chosen.new_key_file), "sealed": sealed}) + "\n")
    return 0


def rotate(state: Path, former: Path, other: Path) -> int:
    """Seal every secret of a state under the key at `other`, which is created if missing; returns how many were sealed.

    Raises StateError if a cloud serves the state, or if the secrets are not sealed under the key at `former`.
    """
    disk.require_state(state)
    with disk.opening(state), closing(Store.at(state)) as store:
        with store.transaction(at=0) as tx:
            sealed = _sealed_anew(tx, keys.fingerprint(tx, state), former, other)
        store.flush()
    return sealed


def give_up(state: Path, other: Path) -> int:
    """Give a state whose key is lost the key at `other`, which is created if missing; returns 0, as nothing is sealed.

    Raises StateError if a cloud serves the state.
    """
    disk.require_state(state)
    with disk.opening(state), closing(Store.at(state)) as store, store.transaction(at=0) as tx:
        keys.fingerprint(tx, None)
        keys.note(tx, keys.read(other) if other.exists() else keys.make(other))
    return 0


def _sealed_anew(tx: Tx, known: str | None, former: Path, other: Path) -> int:
    there = keys.read(other) if other.exists() else None
    if there is not None and there.fingerprint == known:
        return 0
    opening = keys.read(former)
    keys.require(opening, known, former)
    sealing = there or keys.make(other)
    tx.connection.exec_driver_sql("PRAGMA secure_delete=ON")  # otherwise free pages keep what the former key opens
    sealed = sum(_reseal(tx, opening, sealing, rows, field) for rows, field in SEALED)
    keys.note(tx, sealing)
    return sealed


def _reseal(tx: Tx, opening: Vault, sealing: Vault, rows: Rows[Any], field: str) -> int:
    """Seal one field of all rows; a secret that was imported under a third key stays as it is."""
    sealed = 0
    for row in rows.all(tx):
        owner = owner_of(row.organization_id, row.id)
        try:
            secret = opening.open(getattr(row, field) or "", owner)
        except Unreadable:
            continue
        rows.change(tx, row.id, **{field: sealing.seal(secret, owner)})
        sealed += 1
    return sealed
