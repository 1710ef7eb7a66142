"""The parts of a spec and a status that only workloads have; empty for kinds that do not run. Pure."""

from relay_operator.api.workload import ManagedSpec, ManagedStatus, WorkloadSpec, WorkloadStatus

_NOTHING_ASKED = WorkloadSpec()
_NOTHING_TOLD = WorkloadStatus()


def asked(spec: ManagedSpec) -> WorkloadSpec:
    """Power, lifetime, recovery, connection and environment of a spec."""
    return spec if isinstance(spec, WorkloadSpec) else _NOTHING_ASKED


def told(status: ManagedStatus) -> WorkloadStatus:
    """Since when it runs, how often it was recovered, and the like, from a status."""
    return status if isinstance(status, WorkloadStatus) else _NOTHING_TOLD
