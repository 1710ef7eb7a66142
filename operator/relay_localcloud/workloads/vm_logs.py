"""The log of a VM, as far as there is one without anything that runs: its boots, its cloudInit, its health checks.

`cloudInit` runs once per disk, on its first boot (section 2, "VM"). Nothing is executed here, so no script fails; one
that did would change nothing either, since a failing script does not stop the VM starting or being billed.
"""

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Index, delete, select

from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.workloads import VM, Workload

BOOT: Final = "boot"
CLOUD_INIT: Final = "cloud-init"
HEALTH_CHECK: Final = "health-check"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log of a live VM: it is on the disk, and goes with it."""

    sequence: int
    vm_id: str
    at: int
    source: str
    line: str


LINES: Final = Rows(Line, "vm_logs", Index("log_of_vm", "vm_id", "sequence"))
vm_logs: Final = LINES.table


def boot(tx: Tx, vm: Workload) -> None:
    """Note a boot, and run what runs on the first one of a disk; pods do not boot."""
    if vm.kind != VM:
        return
    write(tx, vm.id, BOOT, "The VM booted.")
    script = json.loads(vm.request).get("cloudInit")
    if script is not None and not _has_run(tx, vm.id):
        write(tx, vm.id, CLOUD_INIT, f"The script of {len(script)} characters ran as root, once for this disk.")


def write(tx: Tx, vm_id: str, source: str, line: str) -> None:
    """Add a line."""
    LINES.insert(tx, vm_id=vm_id, at=tx.now, source=source, line=line)


def lines_of(tx: Tx, vm_id: str, after: int = 0) -> list[Line]:
    """Every line, or those after a sequence number, the oldest first."""
    return LINES.select(tx.connection, vm_logs.c.vm_id == vm_id, vm_logs.c.sequence > after)


def remove_all(tx: Tx, vm_id: str) -> None:
    """Forget the log of a VM whose disk is deleted."""
    tx.connection.execute(delete(vm_logs).where(vm_logs.c.vm_id == vm_id))


def _has_run(tx: Tx, vm_id: str) -> bool:
    query = select(vm_logs.c.sequence).where(vm_logs.c.vm_id == vm_id, vm_logs.c.source == CLOUD_INIT)
    return tx.connection.execute(query.limit(1)).first() is not None
