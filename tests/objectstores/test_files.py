"""Files below the folder that the administrator allows, and the ways out of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest

from relay_operator.objectstores import files
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.errors import StoreReason
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.stores import ObjectStores
from tests.objectstores.bucket import MEBIBYTE, chunks, content, fails_for, mebibytes
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator, Awaitable


def at(path: Path) -> Location:
    return Location.parse(f"file://{quote(str(path))}")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_what_was_written_is_read_with_its_size_and_version(stores: ObjectStores, root: Path) -> None:
    location = at(root / "out put.jsonl")
    written = await stores.write(location, None, mebibytes(3))
    async with stores.read(location, None) as reading:
        assert (reading.size, reading.version) == (3 * MEBIBYTE, written)
        pieces = [piece async for piece in reading]
    assert max(map(len, pieces)) <= MEBIBYTE
    assert b"".join(pieces) == (root / "out put.jsonl").read_bytes()
    assert names(root) == ["out put.jsonl"]


async def test_a_missing_file_is_told_from_a_missing_folder(stores: ObjectStores, root: Path) -> None:
    assert await stores.exists(at(root / "missing"), None) is False
    await fails_for(StoreReason.NOT_FOUND, content(stores, at(root / "missing"), None))
    below = at(root / "no-folder" / "file")
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.exists(below, None))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.check_writable(below, None))
    await fails_for(StoreReason.BUCKET_NOT_FOUND, stores.write(below, None, chunks(b"x")))


async def test_what_is_there_is_replaced(stores: ObjectStores, root: Path) -> None:
    (root / "there").write_bytes(b"first")
    await stores.write(at(root / "there"), None, chunks(b"second"))
    assert (root / "there").read_bytes() == b"second"
    assert names(root) == ["there"]


async def test_a_broken_or_cancelled_write_leaves_nothing(stores: ObjectStores, root: Path) -> None:
    class Broken(Exception): ...

    under_way = asyncio.Event()

    async def breaking() -> AsyncIterator[bytes]:
        yield b"x" * MEBIBYTE
        raise Broken

    async def stalling() -> AsyncIterator[bytes]:
        yield b"x" * MEBIBYTE
        under_way.set()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Broken):
        await stores.write(at(root / "never"), None, breaking())
    write = asyncio.create_task(stores.write(at(root / "never"), None, stalling()))
    await under_way.wait()
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    await stores.check_writable(at(root / "never"), None)
    assert names(root) == []


async def test_a_cancelled_write_closes_its_file_only_when_nothing_writes_to_it_any_more(
    stores: ObjectStores, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, may_go_on, written_to = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), list[str]()

    def slow(descriptor: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait()
        written_to.append(Path(f"/proc/self/fd/{descriptor}").readlink().suffix)

    monkeypatch.setattr(os, "fsync", slow)
    monkeypatch.setattr(files, "_END_SECONDS", PATIENCE_SECONDS)
    write = asyncio.create_task(stores.write(at(root / "out"), None, chunks(b"x")))
    await begun.wait()
    write.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert written_to[:1] == [".partial"]
    assert names(root) == ["out"], "all or nothing"


def test_nothing_is_written_after_the_end(root: Path) -> None:
    hidden = files._Hidden("out")
    hidden.begin(lambda: os.open(root, os.O_RDONLY))
    hidden.end()
    for late in (partial(hidden.write, b"x"), hidden.publish, hidden.appear, partial(hidden.begin, lambda: -1)):
        with pytest.raises(OSError, match="canceled"):
            late()
    assert names(root) == []


async def test_a_cancelled_write_does_not_wait_for_a_file_system_that_hangs(
    stores: ObjectStores, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, begun, may_go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def hanging(_: int) -> None:
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait()

    monkeypatch.setattr(os, "fsync", hanging)
    monkeypatch.setattr(files, "_END_SECONDS", 0.01)
    write = asyncio.create_task(stores.write(at(root / "out"), None, chunks(b"x")))
    await begun.wait()
    write.cancel()
    with pytest.raises(asyncio.CancelledError):
        await write
    assert [Path(name).suffix for name in names(root)] == [".partial"]
    may_go_on.set()

    async def left() -> list[str]:
        return names(root)

    await eventually(left, lambda found: found == ["out"], every=0.01)


@pytest.mark.parametrize("call", ["open", "write", "fsync", "rename", "unlink", "close"])
async def test_a_file_system_that_hangs_does_not_hold_the_event_loop(
    stores: ObjectStores, root: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    loop, begun, may_go_on, system = asyncio.get_running_loop(), asyncio.Event(), threading.Event(), getattr(os, call)

    def hanging(*args: Any, **named: Any) -> Any:
        if args[0] == root:
            return system(*args, **named)  # the folder
        loop.call_soon_threadsafe(begun.set)
        assert may_go_on.wait(PATIENCE_SECONDS), "the event loop waits, too"
        return system(*args, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, hanging)
        write = asyncio.create_task(stores.write(at(root / "out"), None, chunks(b"x")))
        await begun.wait()
        may_go_on.set()
        await write
    assert (root / "out").read_bytes() == b"x"


async def test_a_file_that_is_written_to_while_it_is_read_has_changed(stores: ObjectStores, root: Path) -> None:
    (root / "growing").write_bytes(b"x" * 2 * MEBIBYTE)
    async with stores.read(at(root / "growing"), None) as reading:
        with (root / "growing").open("ab") as more:
            more.write(b"y")
        await fails_for(StoreReason.CHANGED, _drained(reading))


async def test_without_roots_no_file_can_be_named(root: Path) -> None:
    (root / "there").write_bytes(b"x")
    async with ObjectStores(StorePolicy()) as stores:
        for refused in _every_way(stores, at(root / "there")):
            assert "RELAY_FILE_ROOTS" in await fails_for(StoreReason.NOT_ALLOWED, refused)


async def test_links_do_not_lead_out_of_the_root(stores: ObjectStores, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "link").symlink_to(outside / "secret")
    (root / "folder").symlink_to(outside)
    (tmp_path / "root-of-others").mkdir()
    for escape in (root / "folder" / "secret", outside / "secret", tmp_path / "root-of-others" / "file"):
        for refused in _every_way(stores, at(escape)):
            await fails_for(StoreReason.NOT_ALLOWED, refused)
    await fails_for(StoreReason.NOT_ALLOWED, content(stores, at(root / "link"), None))
    await stores.write(at(root / "link"), None, chunks(b"mine"))
    assert (outside / "secret").read_bytes() == b"secret"
    assert names(outside) == ["secret"]


async def test_links_inside_of_the_root_are_followed(stores: ObjectStores, root: Path) -> None:
    (root / "there").write_bytes(b"x")
    (root / "link").symlink_to("there")
    assert await content(stores, at(root / "link"), None) == b"x"


async def test_what_is_no_regular_file_is_not_read(stores: ObjectStores, root: Path) -> None:
    os.mkfifo(root / "pipe")
    (root / "folder").mkdir()
    for odd in ("pipe", "folder"):
        await fails_for(StoreReason.INVALID, content(stores, at(root / odd), None))


async def test_what_no_retry_mends_is_not_tried_again(stores: ObjectStores, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "loop").symlink_to("loop")
    await fails_for(StoreReason.INVALID, stores.write(at(root / "folder"), None, chunks(b"x")))
    await fails_for(StoreReason.INVALID, content(stores, at(root / "loop"), None))
    await fails_for(StoreReason.INVALID, stores.write(at(root / ("n" * 256)), None, chunks(b"x")))
    assert names(root) == ["folder", "loop"]


async def test_a_name_may_be_as_long_as_the_file_system_allows(stores: ObjectStores, root: Path) -> None:
    longest = "ü" * 127
    await stores.write(at(root / longest), None, chunks(b"x"))
    assert names(root) == [longest]


async def test_a_read_that_is_given_up_closes_its_file(stores: ObjectStores, root: Path) -> None:
    there = root / "there"
    there.write_bytes(b"x")
    async with stores.read(at(there), None):
        assert _is_open(there)
    assert not _is_open(there)


def _every_way(stores: ObjectStores, location: Location) -> list[Awaitable[object]]:
    return [
        content(stores, location, None),
        stores.exists(location, None),
        stores.check_writable(location, None),
        stores.write(location, None, chunks(b"x")),
    ]


def _is_open(path: Path) -> bool:
    found = False
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found |= descriptor.samefile(path)
    return found


async def _drained(reading: AsyncIterable[bytes]) -> None:
    async for _ in reading:
        pass
