"""What the workers call, and what is measured of it."""

from dataclasses import dataclass
from typing import Protocol

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.queue import Taken


@dataclass(frozen=True, slots=True)
class Pass:
    """The outcome of a pass, for metrics."""

    taken: Taken[ObjectKey]
    outcome: str
    """The action's name, or `error`."""
    seconds: float
    wrote: bool


class KindReconciler(Protocol):
    """The reconciler of a kind, without its type parameters."""

    async def reconcile(self, taken: Taken[ObjectKey]) -> None: ...

    async def persist(self) -> None:
        """Wait until everything paid for is recorded; called when passes are no longer started."""
