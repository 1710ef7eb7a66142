"""`relay-localcloud` on a machine whose clock is ahead of the real one by the seconds in a file.

`python -m tests.localcloud.support.shifted FILE serve ...`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from relay_localcloud import __main__ as localcloud

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Runs the command line after the file's name."""
    offset, real = Path(arguments[0]), time.time_ns
    time.time_ns = lambda: real() + int(offset.read_text()) * 10**9
    return localcloud.main(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
