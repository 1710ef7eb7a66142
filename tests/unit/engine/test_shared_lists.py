"""One list serves all who ask about the same time, and a failed one serves nobody later."""

import asyncio
from dataclasses import dataclass, field

import pytest

from relay_client import Cloud
from relay_operator.engine.shared_lists import SharedLists

CLOUD = Cloud("https://cloud.example", "or_test_key", organization_id="org-1")


@dataclass
class _Reader:
    """Counts what it is asked to read; waits to be told to answer."""

    now: float = 0.0
    reads: int = 0
    fails: bool = False
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> int:
        self.reads += 1
        number = self.reads
        await self.answers.wait()
        if self.fails:
            raise OSError("no answer")
        return number


def _lists(reader: _Reader) -> SharedLists[int]:
    return SharedLists(max_age=60.0, clock=lambda: reader.now)


async def test_all_who_ask_about_the_same_time_share_one_list() -> None:
    reader = _Reader()
    lists = _lists(reader)
    askers = [asyncio.create_task(lists.recent(CLOUD, reader.read)) for _ in range(3)]
    await asyncio.sleep(0)
    reader.answers.set()
    assert await asyncio.gather(*askers) == [1, 1, 1]
    reader.now = 60.0
    assert await lists.recent(CLOUD, reader.read) == 1
    reader.now = 60.1
    assert await lists.recent(CLOUD, reader.read) == 2


async def test_several_lists_of_one_connection_are_told_apart_and_the_old_are_forgotten() -> None:
    reader = _Reader()
    reader.answers.set()
    lists = _lists(reader)
    assert [await lists.recent(CLOUD, reader.read, of) for of in ("a", "b", "a")] == [1, 2, 1]
    assert await lists.fresh(CLOUD, reader.read, "a") == 3
    reader.now = 60.1
    assert await lists.recent(CLOUD, reader.read, "b") == 4
    assert [len(kept) for kept in lists._shared.values()] == [1]


async def test_a_list_that_failed_is_read_again() -> None:
    reader = _Reader(fails=True)
    lists = _lists(reader)
    reader.answers.set()
    with pytest.raises(OSError, match="no answer"):
        await lists.recent(CLOUD, reader.read)
    reader.fails = False
    assert await lists.recent(CLOUD, reader.read) == 2


async def test_one_who_gives_up_does_not_end_what_others_wait_for() -> None:
    reader = _Reader()
    lists = _lists(reader)
    hasty, patient = (asyncio.create_task(lists.recent(CLOUD, reader.read)) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hasty
    reader.answers.set()
    assert await patient == 1


async def test_a_fresh_list_is_begun_after_it_is_asked_for_and_shared_by_all_who_ask_meanwhile() -> None:
    reader = _Reader()
    lists = _lists(reader)
    assert not lists.asked_for(CLOUD)
    first = asyncio.create_task(lists.fresh(CLOUD, reader.read))
    await asyncio.sleep(0)
    later = [asyncio.create_task(lists.fresh(CLOUD, reader.read)) for _ in range(3)]
    await asyncio.sleep(0)
    assert reader.reads == 1
    reader.answers.set()
    assert await first == 1
    assert await asyncio.gather(*later) == [2, 2, 2]
    assert await lists.recent(CLOUD, reader.read) == 2
    assert await lists.fresh(CLOUD, reader.read) == 3
    assert lists.asked_for(CLOUD)
