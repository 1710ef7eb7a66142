"""The auto-stop: what happens when an organization's balance falls below its floor (sections 3 and 8)."""

from collections.abc import Mapping
from typing import Final

from relay_localcloud.clock.due import DueHandler, DueItem
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters.states import SERVING, ClusterTrigger
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.serving import rows as serving_rows
from relay_localcloud.serving import states as serving_states
from relay_localcloud.workloads import moves, workloads
from relay_localcloud.workloads.transitions import Trigger


def _auto_stop(tx: Tx, item: DueItem) -> None:
    organization_id = item.subject
    reason = "The balance ran out: add funds, then restart it."
    for workload in workloads.running_of(tx.connection, organization_id):
        pods_end = " It is deleted with its volume 7 days after the stop unless funds are added."
        notice = pods_end if workload.kind == workloads.POD else ""
        moves.apply(tx, workload, Trigger.BALANCE_RAN_OUT, reason + notice)
    for cluster in clusters.live_of(tx.connection, organization_id):
        if cluster.status in SERVING:
            cluster_moves.apply(tx, cluster, ClusterTrigger.BALANCE_RAN_OUT, reason)
    for deployment in serving_rows.live_of(tx.connection, organization_id):
        serving_moves.apply(tx, deployment, serving_states.Trigger.BALANCE_RAN_OUT, reason)


HANDLERS: Final[Mapping[str, DueHandler]] = {billing.AUTO_STOP: _auto_stop}
