"""What a process used, by the system's own books."""

import os
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since its start, and resident bytes at the moment."""

    cpu: float
    resident: int


def usage(pid: int) -> Usage:
    """Of a live process."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return Usage(cpu(pid), int(pages) * os.sysconf("SC_PAGE_SIZE"))


def cpu(pid: int) -> float:
    """CPU seconds of a live process since its start, of all its threads, by its own clock (clock_getcpuclockid)."""
    return time.clock_gettime(~pid << 3 | 2)


def peak(pid: int | str = "self") -> int:
    """The most resident bytes a process has had since its start or `restart_peak`."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def restart_peak(pid: int | str = "self") -> None:
    """Measure the peak from what is resident at the moment."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a piece of work took: CPU seconds, and resident bytes at the peak above those before."""

    cpu: float
    memory: int


class Meter:
    """Measures one live process from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        restart_peak(pid)
        self._before, self._resident = usage(pid).cpu, peak(pid)

    def spent(self) -> Spent:
        """Since the meter was made."""
        return Spent(usage(self._pid).cpu - self._before, peak(self._pid) - self._resident)
