"""What much work needed goes back to the system, although little that lives on lies between."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import mmap
import sys
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from relay_localcloud.kernel import memory
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pytest

MEGABYTE = 2**20


async def _look() -> int:
    return memory._own()


async def test_small_blocks_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    ctypes.CDLL(None).malloc_trim(0)  # otherwise the blocks may fit into what earlier tests have left
    returning = asyncio.create_task(memory.tidy())
    await asyncio.sleep(0)
    blocks = [bytearray(4000) for _ in range(20_000)]
    most = memory._own()
    living = blocks[::100]
    blocks.clear()
    await eventually(_look, lambda size: size < most - 40 * MEGABYTE, what="most of 80 MB is given back")
    assert len(living) == 200
    returning.cancel()


def test_pages_of_a_file_do_not_count(tmp_path: Path) -> None:
    size = 40 * MEGABYTE
    (tmp_path / "library").write_bytes(bytes(size))
    before = memory._own()
    with (tmp_path / "library").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[:: mmap.PAGESIZE]) == 0
        assert memory._own() < before + size // 2


class Circle:
    """What only a sweep ends."""

    def __init__(self) -> None:
        self.itself = self


async def test_what_lived_through_a_short_sweep_is_examined_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(memory, "_SWEEPS_OF_THE_YOUNG", 0)
    monkeypatch.setattr(memory, "LONG_SECONDS", 60.0)
    monkeypatch.setattr(memory, "EVERYTHING_EACH", 2**31)
    circles = [Circle() for _ in range(1_000)]
    ends = weakref.WeakSet(circles)
    before = gc.get_stats()[2]["collections"]
    returning = asyncio.create_task(memory.tidy())
    await eventually(_sweeps, lambda count: count > before)
    circles.clear()
    await eventually(_count_of(ends), lambda count: count == 0)
    returning.cancel()


async def test_what_lived_through_a_long_sweep_is_examined_again_after_many_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(memory, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(memory, "_SWEEPS_OF_THE_YOUNG", 0)
    monkeypatch.setattr(memory, "EVERYTHING_EACH", 10_000)
    circles = [Circle() for _ in range(1_000)]
    ends = weakref.WeakSet(circles)
    before = gc.get_freeze_count()
    returning = asyncio.create_task(memory.tidy())
    await eventually(_frozen, lambda count: count >= before + len(circles))
    circles.clear()
    gc.collect()
    assert len(ends) == 1_000
    monkeypatch.setattr(memory, "EVERYTHING_EACH", 1)
    await eventually(_count_of(ends), lambda count: count == 0)
    returning.cancel()
    gc.unfreeze()


async def test_what_was_in_use_at_the_last_sweep_goes_back_once_the_work_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(memory, "_SWEEPS_OF_THE_YOUNG", 0)
    monkeypatch.setattr(memory, "LONG_SECONDS", 0.0)
    blocks = [bytearray(4000) for _ in range(20_000)]
    circles = [Circle()]
    before = gc.get_freeze_count()
    returning = asyncio.create_task(memory.tidy())
    await eventually(_frozen, lambda count: count >= before + len(circles))
    most = memory._own()
    living = blocks[::100]
    blocks.clear()
    monkeypatch.setattr(memory, "_GROWTH", 2**50)
    monkeypatch.setattr(memory, "_SWEEPS_OF_THE_YOUNG", 2**31)
    await eventually(_look, lambda size: size < most - 40 * MEGABYTE, what="most of 80 MB is given back")
    assert len(living) == 200
    returning.cancel()
    gc.unfreeze()


async def test_names_that_were_looked_up_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    monkeypatch.setattr(memory, "_SWEEPS_OF_THE_YOUNG", 0)
    names = [f"name {number}" for number in range(2_000)]

    async def references() -> int:
        return sum(map(sys.getrefcount, names))

    without = await references()
    for name in names:
        assert getattr(Circle, name, None) is None
    assert await references() > without + 100, "Python's cache keeps them"
    returning = asyncio.create_task(memory.tidy())
    await eventually(references, lambda count: count < without + 10)
    returning.cancel()


async def _sweeps() -> int:
    return int(gc.get_stats()[2]["collections"])


async def _frozen() -> int:
    return gc.get_freeze_count()


def _count_of(ends: weakref.WeakSet[Circle]) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return len(ends)

    return count
