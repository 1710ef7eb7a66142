"""Runs the operator with shorter timeouts, so that a plan can exceed them in seconds.

`python hurried.py relay-operator run`: only the timeouts for answers differ from the real program.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from relay_client import CallPolicy
from relay_kube import kube
from relay_operator import __main__ as operator
from relay_operator.accounts import connecting
from relay_operator.objectstores import buckets

if TYPE_CHECKING:
    from collections.abc import Sequence

PATIENCE = 4.0
"""Seconds until an answer of the cloud, the API server or the store times out."""
COMMAND = (sys.executable, str(Path(__file__)))


def main(arguments: Sequence[str]) -> int:
    """Runs `relay-operator` with short timeouts; returns its exit code."""
    vars(connecting)["CallPolicy"] = partial(CallPolicy, attempt_seconds=PATIENCE, total_seconds=PATIENCE)
    vars(kube)["_TIMEOUT"] = aiohttp.ClientTimeout(total=PATIENCE)
    options = buckets._options
    vars(buckets)["_options"] = lambda *its: {**options(*its), "read_timeout": timedelta(seconds=PATIENCE)}
    return operator.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]))
