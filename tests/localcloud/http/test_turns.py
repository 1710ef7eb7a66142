"""Who asks little does not wait behind who asks much: organizations take turns at the event loop."""

from __future__ import annotations

import asyncio

from relay_localcloud.http.turns import ROUNDS, Turns
from tests.support.turns import others


async def begin(turns: Turns, lane: str, began: list[str]) -> None:
    """Notes when its turn came."""
    await turns.of(lane)
    began.append(lane)


async def order(turns: Turns, lanes: list[str]) -> list[str]:
    """The lanes in the order in which they begin, if all ask at once."""
    began: list[str] = []
    await asyncio.gather(*(begin(turns, lane, began) for lane in lanes))
    return began


async def test_of_those_who_ask_at_once_each_organization_has_its_turn() -> None:
    asked = ["many"] * 5 + ["few"] * 2 + ["one"]
    assert await order(Turns(), asked) == ["many", "few", "one", "many", "few", "many", "many", "many"]


async def test_who_comes_later_does_not_wait_for_any_that_came_before() -> None:
    turns = Turns()
    began: list[str] = []
    flood = [asyncio.create_task(begin(turns, "many", began)) for _ in range(50)]
    await flood[9]
    await begin(turns, "one", began)
    assert len(began) == 11
    await asyncio.gather(*flood)


async def test_while_one_comes_one_of_those_who_wait_begins() -> None:
    turns = Turns()
    began: list[str] = []
    flood = [asyncio.create_task(begin(turns, "many", began)) for _ in range(20)]
    await flood[4]
    for _ in range(ROUNDS):
        await asyncio.sleep(0)
    assert len(began) == 6
    await asyncio.gather(*flood)


async def test_who_is_alone_waits_for_nobody() -> None:
    turns = Turns()
    with others() as counting:
        await turns.of("one")
        assert counting.turns == 0


async def test_who_is_gone_takes_no_turn() -> None:
    turns = Turns()
    began: list[str] = []
    tasks = [asyncio.create_task(begin(turns, lane, began)) for lane in ("one", "one", "other", "other")]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert began == ["one", "other", "other"]
    assert await order(turns, ["again"]) == ["again"]
