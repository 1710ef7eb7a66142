"""How much is measured."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Extent:
    """Objects, of a round if there are several; rounds; and seconds of quiet."""

    objects: int
    rounds: int = 1
    quiet_seconds: float = 120
    provider_http: Path | None = None
    """A folder with provider-http, built, and its CRDs."""
