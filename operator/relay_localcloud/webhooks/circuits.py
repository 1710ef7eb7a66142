"""Circuit breakers for receivers that do not answer: after several hung calls in a row they are called less often.

A call that falls due while its receiver rests counts as a failed attempt, so its delivery follows the same schedule of
retries. A last attempt is made unless a call that began since it fell due hung: a receiver that recovered meanwhile
gets every event. Pure.
"""

from dataclasses import dataclass, replace
from typing import Final

from relay_localcloud.kernel.instants import SECOND

HANGS_ALLOWED: Final = 20
"""Hung calls in a row before a receiver rests; more than one delivery has, so none is held back by its own calls."""

FIRST_REST: Final = 5 * SECOND
LONGEST_REST: Final = 60 * SECOND

_MOST: Final = 10_000
"""How many receivers are remembered; beyond that, the one whose last hung call is oldest is forgotten."""


@dataclass(frozen=True, slots=True)
class _Circuit:
    hangs: int
    hung_at: int
    """The beginning of the latest call that hung."""
    rests_until: int

    @property
    def rest(self) -> int:
        """How long after the end of the last hung call no other is made, in microseconds; 0 while few enough hung."""
        beyond = self.hangs - HANGS_ALLOWED
        return 0 if beyond < 0 else min(FIRST_REST << min(beyond, 10), LONGEST_REST)


class Circuits:
    """The circuits of receivers by subscription.

    Instants are the cloud's, `limit` is the time that a call may take; all are in microseconds.
    """

    def __init__(self) -> None:
        self._by_id: dict[str, _Circuit] = {}

    def admit(self, webhook_id: str, at: int, limit: int, last_due: int | None = None) -> int | None:
        """None if a call may be made, else when the rest ends; after a rest, admits one call and then rests again.

        `last_due` is when a last attempt fell due; None for others.
        """
        circuit = self._by_id.get(webhook_id)
        if circuit is None or not circuit.rest or (last_due is not None and last_due > circuit.hung_at):
            return None
        if at < circuit.rests_until:
            return circuit.rests_until
        self._by_id[webhook_id] = replace(circuit, rests_until=at + limit + circuit.rest)
        return None

    def ended(self, webhook_id: str, at: int, limit: int, *, hung: bool) -> None:
        """Record the end of a call that started at `at`; any answer closes the circuit."""
        former = self._by_id.pop(webhook_id, None)
        if not hung:
            return
        hangs, hung_at = (1, at) if former is None else (former.hangs + 1, max(former.hung_at, at))
        circuit = _Circuit(hangs, hung_at, 0)
        self._by_id[webhook_id] = replace(circuit, rests_until=at + limit + circuit.rest)
        if len(self._by_id) > _MOST:
            del self._by_id[next(iter(self._by_id))]

    def forget(self) -> None:
        """Forget all circuits, after the state was replaced."""
        self._by_id.clear()
