"""The undisturbed runs with which plans of batches are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.batch_scenarios import BATCHES

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("scenario", BATCHES)
async def test_undisturbed_every_record_is_answered_once(batch_plays: Plays, scenario: str) -> None:
    played = await batch_plays.learned(scenario)
    ending = played.ending
    batches = BATCHES[scenario].batches
    assert (ending.created, ending.paid_for) == (batches, batches)
