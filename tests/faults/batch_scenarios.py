"""Scenarios of batches: records in several parts, some of which fail and are sent again."""

from __future__ import annotations

from dataclasses import dataclass

from tests.cluster.batch_side import CANCEL_BATCH, CREATE_BATCH, KIND, Json, record
from tests.faults.scenarios import LOOKS_AT_AN_ACCOUNT, Kind, Scenario

# The operator does not look at a finished batch; looks at its account show that time passes.
BATCH = Kind(KIND, CREATE_BATCH, CANCEL_BATCH, LOOKS_AT_AN_ACCOUNT)
# Settings of the operator: two parts for the records below, and access to the proxy, which is on this machine.
SETTINGS = {
    "batch_part_bytes": "2048",
    "allowed_private_networks": "127.0.0.0/8",
    "poll_transition_seconds": "0.3",
}
# The rate of the cloud's clock, on which each phase of a batch takes a second.
CLOCK_RATE = 20.0
RECORDS = 12
TOKENS = 1_000_000
"""Tokens per answer: so many that paying twice for a record shows in whole cents."""


@dataclass(frozen=True)
class BatchScenario(Scenario):
    """A batch from a ConfigMap to a ConfigMap, or from a bucket to a bucket."""

    in_bucket: bool = False
    suspended: bool = False
    """Whether it is suspended while the first record of each part is under way, and then resumed."""
    batches: int = 3
    """The number of batches in the cloud: the parts, and those of records that are sent again."""

    def records(self) -> list[Json]:
        """Returns the records of its input."""
        return [record(f"r{number:02}", f"p{number:02}") for number in range(RECORDS)]

    def failing(self) -> dict[str, tuple[int, int]]:
        """Returns prompts with how often they fail and with which status; two pass the second time, one never does."""
        return {"p02": (1, 503), "p07": (1, 429), "p08": (9, 422)}


_BATCH = ("account", "batch")
BATCHES = {
    "batch": BatchScenario(BATCH, "nightly"),
    "bucket": BatchScenario(BATCH, "nightly", after=_BATCH, in_bucket=True),
    "suspended": BatchScenario(BATCH, "nightly", after=_BATCH, suspended=True, batches=5),
}
