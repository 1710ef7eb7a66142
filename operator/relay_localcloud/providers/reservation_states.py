"""The states of reservations and their triggers; all is assumed, since the specification shows none.

A call succeeds without a change if its goal is reached already, so that it can be repeated after a lost answer.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from relay_localcloud.capacity.reservations import ReservationStatus as S
from relay_localcloud.http.outcomes import Move, Refusal, Stay, every_pair


class ReservationTrigger(Enum):
    """What happens to a reservation."""

    STARTED = auto()  # by its window, as is the next
    ENDED = auto()
    RELEASE = auto()  # by the caller, as is the next
    RECLAIM = auto()


class ReservationEffect(Enum):
    """What a move does besides changing the status."""

    RESERVE_UNITS = auto()
    REQUIRE_UNUSED = auto()
    LEND_UNITS = auto()
    TAKE_UNITS_BACK = auto()  # the spot workloads on them end
    GIVE_UNITS_BACK = auto()  # to free placement


ReservationMove = Move[S, ReservationEffect]
ReservationOutcome = ReservationMove | Refusal | Stay

_E = ReservationEffect
_EARLY: Final = Refusal("The reservation has not begun: wait until its startsAt.")
_OVER: Final = Refusal("The reservation has ended.")

_ROWS: Final[Mapping[S, Mapping[ReservationTrigger, ReservationOutcome]]] = {
    S.SCHEDULED: {
        ReservationTrigger.STARTED: ReservationMove(S.ACTIVE, (_E.RESERVE_UNITS,)),
        ReservationTrigger.ENDED: ReservationMove(S.ENDED),
        ReservationTrigger.RELEASE: _EARLY,
        ReservationTrigger.RECLAIM: _EARLY,
    },
    S.ACTIVE: {
        ReservationTrigger.ENDED: ReservationMove(S.ENDED, (_E.GIVE_UNITS_BACK,)),
        ReservationTrigger.RELEASE: ReservationMove(S.RELEASED, (_E.REQUIRE_UNUSED, _E.LEND_UNITS)),
    },
    S.RELEASED: {
        ReservationTrigger.ENDED: ReservationMove(S.ENDED, (_E.TAKE_UNITS_BACK, _E.GIVE_UNITS_BACK)),
        ReservationTrigger.RECLAIM: ReservationMove(S.ACTIVE, (_E.TAKE_UNITS_BACK,)),
    },
    S.ENDED: {
        ReservationTrigger.RELEASE: _OVER,
        ReservationTrigger.RECLAIM: _OVER,
    },
}

RESERVATION_TRANSITIONS: Final = every_pair(_ROWS, ReservationTrigger)
