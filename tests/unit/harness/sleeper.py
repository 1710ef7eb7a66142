"""A server that is forked: tells its environment, waits, and fails."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Sleeps so many seconds; the exit status is 3."""
    for name, value in os.environ.items():
        sys.stdout.write(f"{name}={value}\n")
    sys.stderr.write(f"{arguments[0]} seconds\n")
    sys.stdout.flush()
    time.sleep(float(arguments[0]))
    return 3
