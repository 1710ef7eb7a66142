"""Files in mounted volumes."""

import asyncio
import os
import threading
from pathlib import Path, PurePosixPath

import pytest

from relay_operator.objectstores.files import FileStore
from relay_operator.objectstores.location import Location
from tests.support.eventually import eventually


async def test_a_file_that_opens_after_its_reader_gave_up_is_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As on a mount that hangs."""
    (tmp_path / "records").write_text("one")
    begun, go, opened, really_open = threading.Event(), threading.Event(), list[int](), os.open

    def hang(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        begun.set()
        go.wait()
        opened.append(really_open(path, flags, mode, dir_fd=dir_fd))
        return opened[-1]

    monkeypatch.setattr(os, "open", hang)
    store = FileStore(Location.parse(f"file://{tmp_path}/records"), (PurePosixPath(tmp_path),))
    opening = asyncio.create_task(store.open(0, ""))
    await asyncio.to_thread(begun.wait)
    opening.cancel()
    await asyncio.wait((opening,))
    go.set()

    async def are_closed() -> bool:
        return bool(opened) and not any(_is_open(each) for each in opened)

    await eventually(are_closed, bool, every=0.01)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
