"""The transition table of reservations as a whole: nothing is undecided, and units follow the statuses."""

from __future__ import annotations

import pytest

from relay_localcloud.capacity.reservations import ReservationStatus
from relay_localcloud.http.outcomes import Move, Refusal
from relay_localcloud.providers.reservation_states import (
    RESERVATION_TRANSITIONS,
    ReservationEffect,
    ReservationMove,
    ReservationTrigger,
)

MOVES = [
    (status, trigger, move) for (status, trigger), move in RESERVATION_TRANSITIONS.items() if isinstance(move, Move)
]
HAS_UNITS = {ReservationStatus.ACTIVE, ReservationStatus.RELEASED}


def test_every_status_has_an_outcome_for_every_trigger() -> None:
    assert set(RESERVATION_TRANSITIONS) == {
        (status, trigger) for status in ReservationStatus for trigger in ReservationTrigger
    }


def test_only_what_people_ask_for_is_refused() -> None:
    refused = {trigger for (_, trigger), outcome in RESERVATION_TRANSITIONS.items() if isinstance(outcome, Refusal)}
    assert refused == {ReservationTrigger.RELEASE, ReservationTrigger.RECLAIM}


@pytest.mark.parametrize(("status", "trigger", "move"), MOVES)
def test_a_move_takes_and_gives_units_as_its_statuses_say(
    status: ReservationStatus, trigger: ReservationTrigger, move: ReservationMove
) -> None:
    del trigger
    assert (ReservationEffect.RESERVE_UNITS in move.effects) == (status not in HAS_UNITS and move.to in HAS_UNITS)
    assert (ReservationEffect.GIVE_UNITS_BACK in move.effects) == (status in HAS_UNITS and move.to not in HAS_UNITS)
    assert (ReservationEffect.LEND_UNITS in move.effects) == (move.to is ReservationStatus.RELEASED)
    assert (ReservationEffect.TAKE_UNITS_BACK in move.effects) == (status is ReservationStatus.RELEASED)
