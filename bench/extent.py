"""The size of a measurement."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Extent:
    """Objects per round, rounds, and seconds of quiet."""

    objects: int
    rounds: int = 1
    quiet_seconds: float = 120
    provider_http: Path | None = None
    """A folder with the built provider-http and its CRDs."""
