"""Deeds of held calls, and that none of these calls is left waiting."""

import asyncio

import pytest

from tests.faults.deeds import attend
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.faultproxy import Held
from tests.support.faultrules import Call, Deed, Hold, Moment, Rule, Side

_HOLD = Hold(Moment.ACTED, Deed.NONE)


def call() -> Held:
    return Held(Rule(Side.CLOUD, "*", _HOLD), _HOLD, Call(Side.CLOUD, "GET /v1/pods"))


async def released(*calls: Held) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        for held in calls:
            await held.until_released()


async def test_a_call_that_comes_as_a_deed_fails_goes_on() -> None:
    calls, first, second = asyncio.Queue[Held](), call(), call()

    async def do(_held: Held) -> None:
        calls.put_nowait(second)
        raise AssertionError("it failed")

    calls.put_nowait(first)
    with pytest.raises(AssertionError, match="it failed"):
        await attend(calls, do)
    await released(first, second)
    assert calls.empty()


@pytest.mark.parametrize("steps", range(8))
async def test_whenever_it_ends_no_call_that_it_took_is_left_waiting(steps: int) -> None:
    calls, held = asyncio.Queue[Held](), call()

    async def do(_held: Held) -> None:
        await asyncio.Event().wait()

    attending = asyncio.create_task(attend(calls, do))
    await asyncio.sleep(0)
    calls.put_nowait(held)
    for _ in range(steps):
        await asyncio.sleep(0)
    attending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await attending
    if not calls.empty():
        assert calls.get_nowait() is held
        return
    await released(held)


async def test_each_is_done_beside_the_others_and_then_goes_on() -> None:
    calls, first, second, begun = asyncio.Queue[Held](), call(), call(), list[Held]()

    async def do(held: Held) -> None:
        begun.append(held)
        if held is first:
            await second.until_released()

    calls.put_nowait(first)
    calls.put_nowait(second)
    attending = asyncio.create_task(attend(calls, do))
    await released(first)
    attending.cancel()
    assert begun == [first, second]
