"""Health checks of VMs (section 2, `healthChecks`, `healthCheckPath`, `healthCheckPort`).

What a failing check does is assumed: the VM stays `running`, is billed and answers; `statusReason` says what fails,
until the check passes again or the VM boots. Checks fail and pass when the control interface says so.
"""

import json

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import vm_logs, workloads
from relay_localcloud.workloads.workloads import Workload
from relay_wire.pods import PodStatus


def report(tx: Tx, vm: Workload, *, healthy: bool, reason: str | None) -> None:
    """Let the checks of a VM fail or pass; ApiError 409 where it has none, or does not run."""
    checked = _checked(vm)
    if checked is None:
        raise ApiError(409, "The VM was created without healthChecks, healthCheckPath and healthCheckPort.")
    if vm.status is not PodStatus.RUNNING:
        raise ApiError(409, f"A VM that is {vm.status.value} is not checked.")
    said = None if healthy else f"The health check {checked} fails: {reason or 'no answer'}."
    vm_logs.write(tx, vm.id, vm_logs.HEALTH_CHECK, said or f"The health check {checked} passes.")
    workloads.change(tx, vm.id, status_reason=said)


def _checked(vm: Workload) -> str | None:
    """What is checked, in words; None: nothing is."""
    asked = json.loads(vm.request)
    path, port, kinds = asked.get("healthCheckPath"), asked.get("healthCheckPort"), asked.get("healthChecks") or []
    if path is None and port is None and not kinds:
        return None
    where = f"of port {port or vm.http_port}{path or ''}"
    return f"{where} ({', '.join(kinds)})" if kinds else where
