"""What the metrics count of an object, read from its status without parsing it."""

import pytest

from relay_operator.engine.figures import NONE, Figures, figures_of
from tests.unit.engine.apiserver import Json

POD: Json = {"gpuModelId": "h100", "gpuCount": 2}
COUNTS: Json = {"total": 10, "completed": 6, "failed": 1}
FIGURES: dict[str, tuple[Json, Figures]] = {
    "a pod that runs": ({**POD, "state": "running"}, Figures(2, "h100")),
    "a pod that does not": ({**POD, "state": "stopped"}, Figures(0, "h100")),
    "a cluster": ({**POD, "replicas": 3, "state": "running"}, Figures(6, "h100")),
    "a degraded one": ({**POD, "replicas": 3, "state": "degraded"}, Figures(6, "h100")),
    "one that is made": ({**POD, "replicas": 3, "state": "provisioning"}, Figures(6, "h100")),
    "a failed one": ({**POD, "replicas": 3, "state": "failed"}, Figures(0, "h100")),
    "one that stops": ({**POD, "replicas": 3, "state": "stopping"}, Figures(0, "h100")),
    "one without a state": ({**POD, "replicas": 3}, Figures(0, "h100")),
    "a model that is no text": ({"gpuModelId": 7, "gpuCount": "two", "state": "running"}, Figures()),
    "a batch": (
        {"requestCounts": COUNTS, "usage": {"costNanoUsd": 9}},
        Figures(records=(("answered", 6), ("failed", 1), ("waiting", 3)), cost_nano_usd=9),
    ),
    "more answers than records": (
        {"requestCounts": {"total": 1, "completed": 2}},
        Figures(records=(("answered", 2), ("failed", 0), ("waiting", 0))),
    ),
    "a schedule": ({"lastSuccessfulTime": "1970-01-01T00:01:00Z"}, Figures(last_success=60.0)),
    "a moment that is none": ({"lastSuccessfulTime": "soon"}, Figures()),
    "nothing": ({}, NONE),
}


@pytest.mark.parametrize(("status", "figures"), FIGURES.values(), ids=FIGURES)
def test_of_a_status(status: Json, figures: Figures) -> None:
    assert figures_of(status) == figures
