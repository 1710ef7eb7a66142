"""What the operator gives to the mapping of a kind: its parts, and the intent of a create."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from relay_operator.api.meta import CreateIntent
from relay_operator.engine.cache import Cache

if TYPE_CHECKING:
    from relay_operator.flows.wiring import Parts


def parts(cache: Cache | None = None) -> Parts:
    """As much of the operator's parts as kinds use."""
    settings = SimpleNamespace(poll_settled_seconds=300.0, poll_transition_seconds=5.0)
    engine = SimpleNamespace(clock=time.monotonic, cache=cache or Cache())
    return cast("Parts", SimpleNamespace(settings=settings, engine=engine))


def intent(name: str, part_of: str = "") -> CreateIntent:
    """The first attempt at a create under this name."""
    sent = {"token": "t", "name": name, "attempt": 1, "specHash": "", "startedAt": "2026-01-01T00:00:00Z"}
    return CreateIntent.model_validate({**sent, "partOf": part_of})
