"""What the queue's workers call, and what they tell of it."""

from dataclasses import dataclass
from typing import Protocol

from relay_operator.api.meta import ObjectKey
from relay_operator.engine.queue import Taken


@dataclass(frozen=True, slots=True)
class Pass:
    """What a pass amounted to, for metrics."""

    taken: Taken[ObjectKey]
    outcome: str
    """The action's name, or `error`."""
    seconds: float
    wrote: bool


class KindReconciler(Protocol):
    """A reconciler of some kind, whatever its types."""

    async def reconcile(self, taken: Taken[ObjectKey]) -> None: ...

    async def persist(self) -> None:
        """Once no pass is taken any more: until all that was paid for is recorded."""
        ...
