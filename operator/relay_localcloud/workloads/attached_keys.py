"""Which of the organization's SSH keys are on a workload (section 2, "Attach SSH key")."""

from collections.abc import Collection

from sqlalchemy import delete, insert

from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.tables import attached_ssh_keys


def attach(tx: Tx, workload_id: str, key_ids: Collection[str]) -> None:
    """Put keys on a workload beside those that it has; one that is there already stays as it is."""
    rows = [
        {"workload_id": workload_id, "ssh_key_id": key_id, "attached_at": tx.now} for key_id in dict.fromkeys(key_ids)
    ]
    if rows:
        tx.connection.execute(insert(attached_ssh_keys).prefix_with("OR IGNORE"), rows)


def replace(tx: Tx, workload_id: str, key_ids: Collection[str]) -> None:
    """Put these keys on a workload in the place of those that it has."""
    tx.connection.execute(delete(attached_ssh_keys).where(attached_ssh_keys.c.workload_id == workload_id))
    attach(tx, workload_id, key_ids)
