"""What fits into a ConfigMap, by what is known before the answers are. Pure."""

from typing import Final

from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.api.inferencebatch_spec import InferenceBatchSpec

CONFIG_MAP_LIMIT: Final = 1024 * 1024
"""Bytes that Kubernetes lets a ConfigMap hold."""
SHORTEST_RESULT: Final = 64
"""Bytes that the line of any result has: custom_id, response and error with their names."""
USUAL_RESULT: Final = 400
"""Bytes that a result has around what the model says: ids, usage and the names of all fields."""


def expected_bytes(status: InferenceBatchStatus) -> int:
    """How long all answers may be expected to be: each as long as its record, and what is around it.

    0 if no file is known, as after a status was rebuilt from the cloud's batches.
    """
    sent = [part for part in status.parts or () if part.round == 1]
    if any(part.size is None for part in sent):
        return 0
    return sum((part.size or 0) + part.records * USUAL_RESULT for part in sent)


def doubt(spec: InferenceBatchSpec, status: InferenceBatchStatus) -> str | None:
    """Why the output may not hold the answers; None if it is likely to."""
    ref, expected = spec.output.config_map_ref, expected_bytes(status)
    if ref is None or expected <= CONFIG_MAP_LIMIT:
        return None
    return (
        f"about {expected} bytes of answers are expected, and ConfigMap {ref.name} holds {CONFIG_MAP_LIMIT}: if they "
        "do not fit, they stay in the cloud until spec.output names another place"
    )
