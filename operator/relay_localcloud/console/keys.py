"""The page of an organization's SSH keys, with the forms that add and remove them."""

from typing import Final

from sqlalchemy import func, select

from relay_localcloud.console.reading import Reading
from relay_localcloud.http.names import LONGEST_NAME
from relay_localcloud.identity import organizations
from relay_localcloud.workloads.ssh_keys import ATTACHED, KEYS
from relay_localcloud.workloads.workloads import WORKLOADS
from relay_wire.pods import PodStatus

_SHOWN: Final = 100


def content(reading: Reading) -> dict[str, object]:
    """The newest keys of the selected organization, else of the first one, each with its number of living workloads."""
    tx, organization_id = reading.tx, reading.organization_id
    found = KEYS.page(tx, None, _SHOWN + 1, organization_id=organization_id)
    attached = ATTACHED.table.c
    of_these = attached.ssh_key_id.in_([key.id for key in found])
    lives = (attached.workload_id == WORKLOADS.table.c.id) & (WORKLOADS.table.c.status != PodStatus.TERMINATED)
    query = select(attached.ssh_key_id, func.count()).where(of_these, lives).group_by(attached.ssh_key_id)
    workloads = {row[0]: row[1] for row in tx.connection.execute(query)}
    return {
        "organization_id": organization_id,
        "whose": organizations.name_of(tx, organization_id),
        "keys": [
            {
                "id": key.id,
                "name": key.name,
                "kind": key.public_key.split()[0],
                "workloads": workloads.get(key.id, 0),
                "created_at": key.created_at,
            }
            for key in found[:_SHOWN]
        ],
        "more": len(found) > _SHOWN,
        "longest_name": LONGEST_NAME,
    }
