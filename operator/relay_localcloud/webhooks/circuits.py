"""Receivers that do not answer: after several calls in a row that hung they are called less often. Pure.

What falls due while a receiver rests counts as an attempt that failed, so its delivery is repeated and given up by the
same schedule. The longest rest is shorter than the wait for the last attempt: a receiver that is back gets that one.
"""

from dataclasses import dataclass
from typing import Final

from relay_localcloud.kernel.instants import SECOND

HANGS_ALLOWED: Final = 20
"""Calls in a row that a receiver may leave unanswered: one delivery alone is never held back by its own."""

FIRST_REST: Final = 5 * SECOND
LONGEST_REST: Final = 60 * SECOND

_MOST: Final = 10_000
"""Receivers that are remembered; the one that hung first is forgotten before another is."""


@dataclass(frozen=True, slots=True)
class _Circuit:
    hangs: int
    rests_until: int = 0

    @property
    def rest(self) -> int:
        """How long no call is made after the last one that hung; 0 while it is none too many."""
        beyond = self.hangs - HANGS_ALLOWED
        return 0 if beyond < 0 else min(FIRST_REST << min(beyond, 10), LONGEST_REST)


class Circuits:
    """How the receivers of subscriptions have answered lately; instants are the cloud's."""

    def __init__(self) -> None:
        self._by_id: dict[str, _Circuit] = {}

    def admit(self, webhook_id: str, at: int) -> int | None:
        """None if it may be called, and after a rest nothing else until that has ended; else when its rest ends."""
        circuit = self._by_id.get(webhook_id)
        if circuit is None or not circuit.rest:
            return None
        if at < circuit.rests_until:
            return circuit.rests_until
        self._by_id[webhook_id] = _Circuit(circuit.hangs, at + circuit.rest)
        return None

    def ended(self, webhook_id: str, at: int, *, hung: bool) -> None:
        """A call that was made at this instant has ended; whatever answers is well."""
        former = self._by_id.pop(webhook_id, None)
        if not hung:
            return
        circuit = _Circuit(1 if former is None else former.hangs + 1)
        self._by_id[webhook_id] = _Circuit(circuit.hangs, at + circuit.rest)
        if len(self._by_id) > _MOST:
            del self._by_id[next(iter(self._by_id))]

    def forget(self) -> None:
        """Remember nothing of a state that was replaced."""
        self._by_id.clear()
