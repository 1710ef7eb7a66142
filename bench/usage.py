"""The CPU and memory that a process used, from the kernel's accounting (Linux)."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the start and current resident bytes."""

    cpu: float
    resident: int


def usage(pid: int) -> Usage:
    """Returns the usage of a live process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return Usage(cpu(pid), int(pages) * os.sysconf("SC_PAGE_SIZE"))


def cpu(pid: int) -> float:
    """Returns the CPU seconds of all threads of a live process, from its own clock (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


def peak(pid: int | str = "self") -> int:
    """Returns the peak of resident bytes since the start of the process or the last `restart_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def restart_peak(pid: int | str = "self") -> None:
    """Resets the peak to the current resident bytes."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took: CPU seconds, and the growth of resident bytes at the peak."""

    cpu: float
    memory: int


class Meter:
    """Measures a live process from the construction of the meter on; resets its peak of memory."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        restart_peak(pid)
        self._before, self._resident = usage(pid).cpu, peak(pid)

    def spent(self) -> Spent:
        """Returns what the process spent since the construction of the meter."""
        return Spent(usage(self._pid).cpu - self._before, peak(self._pid) - self._resident)
