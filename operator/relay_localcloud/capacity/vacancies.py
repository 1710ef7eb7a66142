"""Tells clusters and deployments that wait for room when GPUs become free; clusters are served first."""

from typing import Final

from sqlalchemy import Column, Integer, String, Table, bindparam, select

from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

FILL: Final = "cluster.fill"
"""The due item that gives waiting clusters of a GPU model (its subject) what became free."""

FILL_DEPLOYMENTS: Final = "serving.fill"
"""The same for waiting deployments."""

waiting = Table(
    "waiting_clusters",
    metadata,
    Column("sequence", Integer, primary_key=True),  # the cluster's: the oldest is served first
    Column("cluster_id", String, nullable=False, unique=True),
    Column("gpu_model_id", String, nullable=False, index=True),
)

waiting_deployments = Table(
    "waiting_deployments",
    metadata,
    Column("sequence", Integer, primary_key=True),  # the deployment's, as above
    Column("deployment_id", String, nullable=False, unique=True),
    Column("gpu_model_id", String, nullable=False, index=True),
)


_FILLED: Final = tuple(
    (Prepared(select(table.c.sequence).where(table.c.gpu_model_id == bindparam("model")).limit(1)), kind)
    for table, kind in ((waiting, FILL), (waiting_deployments, FILL_DEPLOYMENTS))
)


def announce_vacancy(tx: Tx, gpu_model_id: str) -> None:
    """GPUs of this model became free: let those who wait have them, if there are any."""
    for somebody_waits, kind in _FILLED:
        if somebody_waits.run(tx.connection, model=gpu_model_id).fetchone() is not None:
            tx.schedule(tx.now, kind, gpu_model_id)
