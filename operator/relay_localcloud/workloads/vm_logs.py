"""The log of a VM, as far as there is one without anything that runs: its boots, its cloudInit, its health checks.

`cloudInit` runs once per disk, on its first boot (section 2, "VM"). Nothing is executed here, so no script fails; one
that did would change nothing either, since a failing script does not stop the VM starting or being billed.
"""

import json
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Column, Index, Integer, String, Table, Text, delete, insert, select

from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads.workloads import VM, Workload

BOOT: Final = "boot"
CLOUD_INIT: Final = "cloud-init"
HEALTH_CHECK: Final = "health-check"

vm_logs = Table(
    "vm_logs",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("vm_id", String, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("source", String, nullable=False),
    Column("line", Text, nullable=False),
    Index("log_of_vm", "vm_id", "sequence"),
)
"""Lines of live VMs: they are on the disk, and go with it."""


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
    tx.connection.execute(insert(vm_logs), {"vm_id": vm_id, "at": tx.now, "source": source, "line": line})


class Line(NamedTuple):
    """A line of a log."""

    sequence: int
    at: int
    source: str
    line: str


def lines_of(tx: Tx, vm_id: str, after: int = 0) -> list[Line]:
    """Every line, or those after a sequence number, the oldest first."""
    log = vm_logs.c
    query = select(log.sequence, log.at, log.source, log.line).where(log.vm_id == vm_id, log.sequence > after)
    return [Line(*row) for row in tx.connection.execute(query.order_by(log.sequence))]


def remove_all(tx: Tx, vm_id: str) -> None:
    """Forget the log of a VM whose disk is deleted."""
    tx.connection.execute(delete(vm_logs).where(vm_logs.c.vm_id == vm_id))


def _has_run(tx: Tx, vm_id: str) -> bool:
    query = select(vm_logs.c.sequence).where(vm_logs.c.vm_id == vm_id, vm_logs.c.source == CLOUD_INIT)
    return tx.connection.execute(query.limit(1)).first() is not None
