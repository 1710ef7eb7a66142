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
