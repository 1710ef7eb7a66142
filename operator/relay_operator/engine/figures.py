"""What one object adds to the sums in metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from relay_operator.api.workload import BILLED, BILLED_EARLY
from relay_operator.engine.manifests import number, part

_REPLICAS_RUN: Final = BILLED | BILLED_EARLY
"""States in which replicas hold their GPUs; while the last ones are made, the first may run."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one object, from its status; zero or empty if status lacks them."""

    gpus: int = 0
    """GPUs that run."""
    model: str = ""
    """The model of these GPUs."""
    records: tuple[tuple[str, int], ...] = ()
    """A batch's records: (outcome, count)."""
    cost_nano_usd: int = 0
    last_success: float = 0
    """Seconds since the epoch; 0 if there was none."""


NONE: Final = Figures()


def figures_of(status: Mapping[str, JsonValue]) -> Figures:
    """The figures in a status; malformed values count as zero."""
    if "gpuModelId" in status:
        model = status["gpuModelId"]
        return Figures(number(status.get("gpuCount")) * _running(status), model if isinstance(model, str) else "")
    if "requestCounts" in status:
        counts = part(status, "requestCounts")
        answered, failed = number(counts.get("completed")), number(counts.get("failed"))
        waiting = max(number(counts.get("total")) - answered - failed, 0)
        return Figures(
            records=(("answered", answered), ("failed", failed), ("waiting", waiting)),
            cost_nano_usd=number(part(status, "usage").get("costNanoUsd")),
        )
    if "lastSuccessfulTime" in status:
        return Figures(last_success=_seconds(status["lastSuccessfulTime"]))
    return NONE


def _running(status: Mapping[str, JsonValue]) -> int:
    """How many of it run: the replicas in a state in which they do; otherwise 1 if its state is `running`."""
    state = status.get("state")
    if "replicas" not in status:
        return int(state == "running")
    return number(status["replicas"]) if state in _REPLICAS_RUN else 0


def _seconds(value: JsonValue) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0
