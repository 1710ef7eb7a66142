"""What a process used, by the system's own books."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since its start, and resident bytes at the moment."""

    cpu: float
    resident: int


def usage(pid: int) -> Usage:
    """Of a live process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return Usage((int(fields[11]) + int(fields[12])) * _TICK, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"))


def peak() -> int:
    """The most resident bytes this process has had since its start or `restart_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def restart_peak() -> None:
    """Measure the peak from what is resident at the moment."""
    Path("/proc/self/clear_refs").write_text("5")
