"""What is asked and told of what runs; of what does not run, it is what nobody asked for. Pure."""

from relay_operator.api.workload import ManagedSpec, ManagedStatus, WorkloadSpec, WorkloadStatus

_NOTHING_ASKED = WorkloadSpec()
_NOTHING_TOLD = WorkloadStatus()


def asked(spec: ManagedSpec) -> WorkloadSpec:
    """Power, lifetime, recovery, connection and environment."""
    return spec if isinstance(spec, WorkloadSpec) else _NOTHING_ASKED


def told(status: ManagedStatus) -> WorkloadStatus:
    """Since when it runs, how often it was recovered, and the like."""
    return status if isinstance(status, WorkloadStatus) else _NOTHING_TOLD
