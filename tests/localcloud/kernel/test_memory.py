"""What much work needed goes back to the system, although little that lives on lies between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from resource import getpagesize
from typing import TYPE_CHECKING

from relay_localcloud.kernel import memory
from tests.support.eventually import eventually

if TYPE_CHECKING:
    import pytest

MEGABYTE = 2**20


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()


async def _look() -> int:
    return _resident()


async def test_small_blocks_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "EVERY_SECONDS", 0.01)
    returning = asyncio.create_task(memory.tidy())
    await asyncio.sleep(0)
    blocks = [bytearray(4000) for _ in range(20_000)]
    most = _resident()
    living = blocks[::100]
    blocks.clear()
    await eventually(_look, lambda size: size < most - 40 * MEGABYTE, what="most of 80 MB is given back")
    assert len(living) == 200
    returning.cancel()
