"""The states of reservations and what moves them; the specification shows none, so all is assumed.

A call that finds what it wants changes nothing, so that it can be repeated when its answer was lost.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from relay_localcloud.capacity.reservations import ReservationStatus as S
from relay_localcloud.http.outcomes import Move, Refusal, Stay, every_pair


class ReservationTrigger(Enum):
    """What happens to a reservation."""

    STARTED = auto()  # by its window, as the next
    ENDED = auto()
    RELEASE = auto()  # by the caller, as the next
    RECLAIM = auto()


class ReservationEffect(Enum):
    """What a move does beside changing the status."""

    RESERVE_UNITS = auto()
    REQUIRE_UNUSED = auto()
    LEND_UNITS = auto()
    TAKE_UNITS_BACK = auto()  # the spot workloads on them end
    GIVE_UNITS_BACK = auto()  # to whoever may use the node


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
