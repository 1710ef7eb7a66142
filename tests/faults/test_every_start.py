"""Each request that a single operator makes at its start, with leader election, meets each fault."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import STARTS
from tests.faults.sampling import SHARES

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.plays import Plays
    from tests.faults.sampling import Chosen

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
@pytest.mark.parametrize("scenario", STARTS)
@pytest.mark.parametrize("number", range(SHARES))
async def test_every_start(
    lone_plays: Plays, chosen: Chosen, scenario: str, number: int, record_property: Callable[[str, object], None]
) -> None:
    if number == 0:
        record_property("fault plans", await lone_plays.told(scenario))
    await lone_plays.all_hold(chosen.of_share(await lone_plays.derived(scenario), number), record_property)


@pytest.mark.parametrize("scenario", STARTS)
async def test_some_starts(
    lone_plays: Plays, chosen: Chosen, scenario: str, record_property: Callable[[str, object], None]
) -> None:
    await lone_plays.all_hold(chosen.sample(await lone_plays.derived(scenario), scenario), record_property)
