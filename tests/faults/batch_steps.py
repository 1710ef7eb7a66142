"""The steps of a batch, as the proxy names them."""

from __future__ import annotations

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
_LOOKS = frozenset({LOOK, LIST_BATCHES})


def steps(calls: Iterable[Logged], *, writes_to_kubernetes: bool = False) -> Iterator[tuple[Side, str, str, int]]:
    """Side, operation, subject and number of each call that was about the batch; of looks at it the first alone.

    Subjects are names that the same step of another run has too: identifiers of the cloud are `*`.
    """
    counts: dict[tuple[Side, str, str], int] = {}
    for call in (one.call for one in calls):
        resource = call.operation.partition(" ")[2].partition("/")[0]
        kube = call.side is Side.KUBE and resource in _OWN and not call.operation.startswith(("LIST ", "WATCH "))
        about_it = kube or (not writes_to_kubernetes and call.side in {Side.INFERENCE, Side.STORE})
        if not about_it or (writes_to_kubernetes and not call.writes):
            continue
        step = (call.side, call.operation, "*" if call.side is Side.INFERENCE else call.subject)
        counts[step] = nth = counts.get(step, 0) + 1
        if call.operation not in _LOOKS or nth == 1:
            yield (*step, nth)
