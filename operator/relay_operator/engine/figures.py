"""What one object adds to the sums that metrics show."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from relay_operator.engine.manifests import part


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one object, as its status tells; nothing if it does not."""

    gpus: int = 0
    """Of what runs."""
    model: str = ""
    """Of these."""
    records: tuple[tuple[str, int], ...] = ()
    """Of a batch, by what came of them."""
    cost_nano_usd: int = 0
    last_success: float = 0
    """Seconds since the epoch; 0 if there was none."""


NONE: Final = Figures()


def figures_of(status: Mapping[str, JsonValue]) -> Figures:
    """The figures in a status; what is of another shape than it should be counts for nothing."""
    if "gpuModelId" in status:
        model = status["gpuModelId"]
        return Figures(_number(status.get("gpuCount")) * _running(status), model if isinstance(model, str) else "")
    if "requestCounts" in status:
        counts = part(status, "requestCounts")
        answered, failed = _number(counts.get("completed")), _number(counts.get("failed"))
        waiting = max(_number(counts.get("total")) - answered - failed, 0)
        return Figures(
            records=(("answered", answered), ("failed", failed), ("waiting", waiting)),
            cost_nano_usd=_number(part(status, "usage").get("costNanoUsd")),
        )
    if "lastSuccessfulTime" in status:
        return Figures(last_success=_seconds(status["lastSuccessfulTime"]))
    return NONE


def _running(status: Mapping[str, JsonValue]) -> int:
    """How many of it run: the replicas of a cluster, or the pod."""
    return _number(status["replicas"]) if "replicas" in status else int(status.get("state") == "running")


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: JsonValue) -> float:
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except ValueError:
        return 0
