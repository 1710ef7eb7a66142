"""The leader is frozen during each request of a batch, and thawed when another leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.batch_scenarios import BATCHES
from tests.faults.every_call import needs_two_operators
from tests.faults.sampling import SHARES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.plays import Plays
    from tests.faults.sampling import Chosen

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("scenario", BATCHES)
@pytest.mark.parametrize("number", range(SHARES))
async def test_every_batch_freeze(
    batch_pair_plays: Plays, chosen: Chosen, scenario: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    derived = await batch_pair_plays.derived(scenario)
    await batch_pair_plays.all_hold(
        [plan for plan in chosen.of_share(derived, number) if needs_two_operators(plan)], record_property
    )
