"""Tells clusters that wait for room when GPUs become free."""

from typing import Final

from sqlalchemy import Column, Integer, String, Table, select

from relay_localcloud.schema import metadata
from relay_localcloud.store import Tx

FILL: Final = "cluster.fill"
"""The due item that gives waiting clusters of a GPU model (its subject) what became free."""

waiting = Table(
    "waiting_clusters",
    metadata,
    Column("sequence", Integer, primary_key=True),  # the cluster's: the oldest is served first
    Column("cluster_id", String, nullable=False, unique=True),
    Column("gpu_model_id", String, nullable=False, index=True),
)


def announce_vacancy(tx: Tx, gpu_model_id: str) -> None:
    """GPUs of this model became free: let waiting clusters have them, if there are any."""
    query = select(waiting.c.cluster_id).where(waiting.c.gpu_model_id == gpu_model_id)
    if tx.connection.execute(query.limit(1)).first() is not None:
        tx.schedule(tx.now, FILL, gpu_model_id)
