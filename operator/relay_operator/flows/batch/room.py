"""Estimates whether answers fit into a ConfigMap, before they are known. Pure."""

from typing import Final

from relay_operator.api.inferencebatch import InferenceBatchStatus
from relay_operator.api.inferencebatch_spec import InferenceBatchSpec

CONFIG_MAP_LIMIT: Final = 1024 * 1024
"""The most bytes that Kubernetes allows in a ConfigMap."""
SHORTEST_RESULT: Final = 64
"""The least bytes of a result's line: custom_id, response and error with their names."""
USUAL_RESULT: Final = 400
"""Typical bytes of a result besides the model's text: ids, usage and the names of all fields."""


def expected_bytes(status: InferenceBatchStatus) -> int:
    """The expected size of all answers in bytes: each as long as its record, plus what surrounds it.

    0 if the size of a file is unknown, as after a status was rebuilt from the cloud's batches.
    """
    sent = [part for part in status.parts or () if part.round == 1]
    if any(part.size is None for part in sent):
        return 0
    return sum((part.size or 0) + part.records * USUAL_RESULT for part in sent)


def doubt(spec: InferenceBatchSpec, status: InferenceBatchStatus) -> str | None:
    """Why the output may be too small for the answers; None if it is probably large enough."""
    ref, expected = spec.output.config_map_ref, expected_bytes(status)
    if ref is None or expected <= CONFIG_MAP_LIMIT:
        return None
    return (
        f"about {expected} bytes of answers are expected, and ConfigMap {ref.name} holds {CONFIG_MAP_LIMIT}: if they "
        "do not fit, they stay in the cloud until spec.output names another place"
    )
