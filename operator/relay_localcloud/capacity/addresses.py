"""IP addresses: every pod and VM on a machine and every replica has one, and a setting says how many there are."""

from typing import Final

from sqlalchemy import func, select

from relay_localcloud.capacity.saturation import saturated
from relay_localcloud.clusters.clusters import replicas
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.transitions import HOLDS_GPUS
from relay_localcloud.workloads.workloads import workloads

_EVER_MADE: Final = Prepared(
    select(
        func.coalesce(select(func.max(workloads.c.sequence)).scalar_subquery(), 0)
        + func.coalesce(select(func.max(replicas.c.sequence)).scalar_subquery(), 0)
    )
)
_IN_USE: Final = Prepared(
    select(
        select(func.count())
        .where(workloads.c.terminated_at.is_(None), workloads.c.status.in_([state.value for state in HOLDS_GPUS]))
        .scalar_subquery()
        + select(func.count()).where(replicas.c.terminated_at.is_(None)).scalar_subquery()
    )
)


def require_address(tx: Tx) -> None:
    """Refuses what would need one more address than there are, with INSUFFICIENT_IP_CAPACITY."""
    # Those in use are counted only once so many were made that they might be too many: counting reads every one.
    if _one(_EVER_MADE, tx) < tx.settings.ip_addresses:
        return
    if _one(_IN_USE, tx) >= tx.settings.ip_addresses:
        raise saturated(tx, "INSUFFICIENT_IP_CAPACITY", "All IP addresses are in use: try again later.")


def _one(query: Prepared, tx: Tx) -> int:
    return int(query.run(tx.connection).fetchone()[0])
