"""How many workloads there are in each state."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Table, func, select

from relay_localcloud.clusters.clusters import clusters
from relay_localcloud.console.wording import TONES, counted
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.workloads import workloads

_ORDER = list(TONES)


def live(tx: Tx, organization_id: str | None) -> Mapping[str, int]:
    """The live pods, VMs and clusters of an organization, or of all, by their state."""
    found: Counter[str] = Counter()
    for table in (workloads, clusters):
        found.update(_of(tx, table, organization_id))
    return dict(sorted(found.items(), key=lambda entry: _ORDER.index(entry[0]) if entry[0] in _ORDER else len(_ORDER)))


def sentence(by_state: Mapping[str, int]) -> str:
    """The counts in one sentence."""
    if not by_state:
        return "No workloads."
    parts = ", ".join(f"{count:,} {state}" for state, count in by_state.items())
    return f"{counted(sum(by_state.values()), 'workload')}: {parts}."


def _of(tx: Tx, table: Table, organization_id: str | None) -> dict[str, int]:
    query = select(table.c.status, func.count()).where(table.c.terminated_at.is_(None)).group_by(table.c.status)
    if organization_id is not None:
        query = query.where(table.c.organization_id == organization_id)
    return {row[0]: row[1] for row in tx.connection.execute(query)}
