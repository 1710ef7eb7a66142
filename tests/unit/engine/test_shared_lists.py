"""One list serves all who ask about the same time, and a failed one serves nobody later."""

import asyncio
import gc
import weakref
from dataclasses import dataclass, field

import pytest

from relay_client import Cloud
from relay_client.list_room import ListRoom
from relay_client.paging import WEIGHT
from relay_operator.engine import shared_lists
from relay_operator.engine.shared_lists import SharedLists

CLOUD = Cloud("https://cloud.example", "or_test_key", organization_id="org-1")


@dataclass
class _Reader:
    """Counts what it is asked to read; waits to be told to answer."""

    now: float = 0.0
    reads: int = 0
    fails: bool = False
    size: int = 0
    answers: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self) -> int:
        self.reads += 1
        number = self.reads
        weight = WEIGHT.get()
        assert weight is not None
        weight.size += self.size
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


class _Rows(dict[str, str]):
    """A list whose end shows."""


def _new_cloud() -> Cloud:
    return Cloud("https://cloud.example", "or_test_key", organization_id="org-1")


async def _let_timers_run() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


async def test_a_list_that_is_too_old_does_not_stay_though_nobody_asks_for_it_again() -> None:
    lists = SharedLists[_Rows](max_age=0.0, clock=lambda: 0.0)

    async def read() -> _Rows:
        return _Rows()

    kept = weakref.ref(await lists.recent(CLOUD, read))
    await _let_timers_run()
    gc.collect()
    assert kept() is None
    assert lists.asked_for(CLOUD)


async def test_a_list_whose_connection_is_gone_weighs_on_no_other() -> None:
    """As when a key rotates: the room outlives the connection."""
    reader, room = _Reader(size=5), ListRoom()
    reader.answers.set()
    lists = SharedLists[int](max_age=0.0, clock=lambda: 0.0)
    assert await lists.recent(Cloud("https://cloud.example", "or_test_key", lists=room), reader.read) == 1
    gc.collect()
    await _let_timers_run()
    assert room.kept == {}


async def test_a_list_that_another_one_replaces_does_not_wait_for_its_age() -> None:
    lists = SharedLists[_Rows](max_age=60.0, clock=lambda: 0.0)

    async def read() -> _Rows:
        return _Rows()

    first, second = weakref.ref(await lists.fresh(CLOUD, read)), weakref.ref(await lists.fresh(CLOUD, read))
    await _let_timers_run()
    gc.collect()
    assert (first(), second()) == (None, {})


async def test_the_age_of_a_list_does_not_end_the_one_that_replaced_it() -> None:
    reader = _Reader()
    reader.answers.set()
    lists = SharedLists[int](max_age=0.0, clock=lambda: 0.0)

    async def ask_later() -> int:
        await _let_timers_run()
        asked = asyncio.create_task(lists.recent(CLOUD, reader.read))
        await asyncio.sleep(0)
        reader.answers.set()
        return await asked

    assert await lists.fresh(CLOUD, reader.read) == 1
    reader.answers.clear()
    later = asyncio.create_task(ask_later())
    assert [await lists.fresh(CLOUD, reader.read), await later] == [2, 2]


async def test_lists_of_one_connection_share_a_bound_whatever_they_list_and_the_oldest_goes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_lists, "MAX_KEPT_BYTES", 10)
    cloud, other, reader = _new_cloud(), _new_cloud(), _Reader(size=5)
    reader.answers.set()
    clusters, keys, read = _lists(reader), _lists(reader), reader.read
    assert await clusters.recent(other, read) == 1
    assert [await clusters.recent(cloud, read), await keys.recent(cloud, read)] == [2, 3]
    assert [await clusters.recent(cloud, read), await keys.recent(cloud, read)] == [2, 3]
    assert await keys.recent(cloud, read, "another") == 4
    assert [await keys.recent(cloud, read), await clusters.recent(cloud, read)] == [3, 5]
    assert [await clusters.recent(other, read), await keys.recent(other, read)] == [1, 6]
    assert [await keys.fresh(other, read), await keys.fresh(other, read), await clusters.recent(other, read)] == [
        7,
        8,
        1,
    ]


async def test_a_read_that_ends_after_its_list_is_replaced_or_its_connection_gone_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shared_lists, "MAX_KEPT_BYTES", 10)
    reader, cloud = _Reader(size=5), _new_cloud()
    lists = _lists(reader)
    slow = asyncio.create_task(lists.recent(cloud, reader.read))
    await asyncio.sleep(0)
    reader.now = 60.1
    later = asyncio.create_task(lists.recent(cloud, reader.read))
    await asyncio.sleep(0)
    reader.answers.set()
    assert [await slow, await later, await lists.recent(cloud, reader.read, "another")] == [1, 2, 3]
    assert [await lists.recent(cloud, reader.read, of) for of in ("", "another")] == [2, 3]
    reader.answers.clear()
    waits = asyncio.create_task(lists.fresh(cloud, reader.read))
    await asyncio.sleep(0)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    del cloud, slow, later, waits
    gc.collect()
    reader.answers.set()
    await _let_timers_run()
    assert not lists._shared
