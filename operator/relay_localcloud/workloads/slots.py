"""Slots of CPU VMs, which sit on no node: a setting says how many there are."""

from sqlalchemy import func, select

from relay_localcloud.capacity.saturation import saturated
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import workloads
from relay_localcloud.workloads.transitions import HOLDS_GPUS


def require_cpu_slot(tx: Tx) -> None:
    """Refuses a CPU VM beyond what the cloud has slots for."""
    w = workloads.workloads.c
    query = select(func.count()).where(
        w.kind == workloads.VM, w.gpu_model_id.is_(None), w.status.in_([s.value for s in HOLDS_GPUS])
    )
    if (tx.connection.execute(query).scalar() or 0) >= tx.settings.cpu_slots:
        raise saturated(tx, "INSUFFICIENT_CPU_CAPACITY", "All slots for CPU VMs are taken: try again later.")
