"""The log of a simulated VM: its boots, its cloudInit, its health checks.

`cloudInit` runs once per disk, on its first boot (section 2, "VM"). Nothing is executed here, so no script fails; a
failure would change nothing either, since a failing script does not stop the VM starting or being billed.

The effect of a failing health check (section 2, `healthChecks`, `healthCheckPath`, `healthCheckPort`) is assumed: the
VM stays `running`, is billed and answers; `statusReason` says what fails, until the check passes again or the VM boots.
The control interface makes checks fail and pass.
"""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, bindparam, delete, select

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import CLOUD_INIT
from relay_localcloud.workloads.workloads import VM, WORKLOADS, Workload
from relay_wire.pods import PodStatus

HEALTH_CHECK: Final = "health-check"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log of a live VM: it is on the disk, and is deleted with it."""

    sequence: int
    vm_id: str
    at: int
    source: str
    line: str


LINES: Final = Rows(Line, "vm_logs", Index("log_of_vm", "vm_id", "sequence"))
KEPT: Final = 1_000
"""Lines of each VM (assumed); that of `cloudInit`, which says that it has run on this disk, is kept beyond them."""
_line = LINES.table.c
_OF_VM: Final = _line.vm_id == bindparam("of_vm")
_NEWEST_DROPPED: Final = select(_line.sequence).where(_OF_VM).order_by(_line.sequence.desc()).offset(KEPT).limit(1)
_DROP: Final = Prepared(
    delete(LINES.table).where(
        _OF_VM,
        _line.sequence <= _NEWEST_DROPPED.correlate(None).scalar_subquery(),
        _line.source != bindparam("kept_source"),
    )
)


def boot(tx: Tx, vm: Workload) -> None:
    """Log a boot, and `cloudInit` if it is the first one of a disk; pods do not boot."""
    if vm.kind != VM:
        return
    script = json.loads(vm.request).get("cloudInit")
    if script is not None and LINES.find(tx, vm_id=vm.id, source=CLOUD_INIT) is not None:
        script = None
    for source, line in tx.runtime.boot_log(script):
        write(tx, vm.id, source, line)


def write(tx: Tx, vm_id: str, source: str, line: str) -> None:
    """Add a line; the oldest lines are deleted if there are too many."""
    LINES.insert(tx, vm_id=vm_id, at=tx.now, source=source, line=line)
    _DROP.run(tx.connection, of_vm=vm_id, kept_source=CLOUD_INIT)


def lines_of(tx: Tx, vm_id: str, after: int = 0) -> list[Line]:
    """Every line, or those after a sequence number, the oldest first."""
    return LINES.all(tx, LINES.columns["sequence"] > after, vm_id=vm_id)


def remove_all(tx: Tx, vm_id: str) -> None:
    """Delete the log of a VM whose disk is deleted."""
    LINES.remove(tx, vm_id=vm_id)


def report_health(tx: Tx, vm: Workload, *, healthy: bool, reason: str | None) -> None:
    """Make the checks of a VM fail or pass; ApiError 409 if it has none, or does not run."""
    checked = _checked(vm)
    if checked is None:
        raise ApiError(409, "The VM was created without healthChecks, healthCheckPath and healthCheckPort.")
    if vm.status is not PodStatus.RUNNING:
        raise ApiError(409, f"A VM that is {vm.shown_status} is not checked.")
    said = None if healthy else f"The health check {checked} fails: {reason or 'no answer'}."
    write(tx, vm.id, HEALTH_CHECK, said or f"The health check {checked} passes.")
    WORKLOADS.change(tx, vm.id, status_reason=said)


def _checked(vm: Workload) -> str | None:
    """A description of the health check; None if the VM has none."""
    asked = json.loads(vm.request)
    path, port, kinds = asked.get("healthCheckPath"), asked.get("healthCheckPort"), asked.get("healthChecks") or []
    if path is None and port is None and not kinds:
        return None
    where = f"of port {port or vm.http_port}{path or ''}"
    return f"{where} ({', '.join(kinds)})" if kinds else where
