"""The operations of a batch as the proxy names them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tests.support.faultrules import Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tests.support.faultrules import Logged

LOOK = "GET /v1/batches/{id}"
LIST_BATCHES, LIST_FILES = "GET /v1/batches", "GET /v1/files"
READ_FILE = "GET /v1/files/{id}"
DOWNLOAD = "GET /v1/files/{id}/content"
STATUS = "PATCH inferencebatches/status"
_OWN = ("inferencebatches", "configmaps")


def written(calls: Iterable[Logged]) -> Iterator[tuple[str, str, int]]:
    """Yields operation, subject and serial number of each Kubernetes write about the batch."""
    counts: Counter[tuple[str, str]] = Counter()
    for call in (one.call for one in calls):
        resource = call.operation.partition(" ")[2].partition("/")[0]
        if call.side is Side.KUBE and resource in _OWN and call.writes:
            step = (call.operation, call.subject)
            counts[step] += 1
            yield (*step, counts[step])
