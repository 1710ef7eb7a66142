"""Clients in threads of their own: outcomes, cancellation, pieces, and the end."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from relay_operator.objectstores import own_thread as module
from relay_operator.objectstores.own_thread import own_thread


class Broken(Exception): ...


@asynccontextmanager
async def noting(events: list[str]) -> AsyncIterator[int]:
    """A client that is the number of its thread."""
    yield threading.get_ident()
    events.append("closed")


async def its_thread() -> int:
    return threading.get_ident()


async def broken() -> None:
    raise Broken


async def test_work_runs_where_the_client_was_opened_which_is_not_here() -> None:
    async with own_thread(noting([])) as one, own_thread(noting([])) as another:
        assert await one.run(its_thread()) == one.client
        assert await another.run(its_thread()) == another.client
        assert len({one.client, another.client, threading.get_ident()}) == 3


async def test_errors_come_through_as_they_are() -> None:
    events = list[str]()
    with pytest.raises(Broken):
        async with own_thread(noting(events)) as own:
            await own.run(broken())
    assert events == ["closed"]


async def test_an_error_of_the_opening_comes_through() -> None:
    @asynccontextmanager
    async def opening() -> AsyncIterator[None]:
        await broken()
        yield

    with pytest.raises(Broken):
        async with own_thread(opening()):
            pytest.fail("it was not opened")


@pytest.mark.parametrize("awaited", [True, False], ids=["awaited", "left behind"])
async def test_work_under_way_has_ended_after_the_end(*, awaited: bool) -> None:
    events, begun, loop = list[str](), asyncio.Event(), asyncio.get_running_loop()

    async def endless() -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            events.append("ended")

    async def use() -> None:
        async with own_thread(noting(events)) as own:
            work = own.run(endless())
            await (work if awaited else begun.wait())

    using = asyncio.create_task(use())
    await begun.wait()
    if awaited:
        using.cancel()
    await asyncio.wait([using])
    assert using.cancelled() is awaited
    assert sorted(events) == ["closed", "ended"]


async def test_the_end_does_not_wait_for_what_nothing_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_END_SECONDS", 0.01)
    loop, begun, closed, may_go_on = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event(), threading.Event()

    @asynccontextmanager
    async def client() -> AsyncIterator[None]:
        yield
        loop.call_soon_threadsafe(closed.set)

    async def computing() -> None:
        loop.call_soon_threadsafe(begun.set)
        may_go_on.wait()

    async def use() -> None:
        async with own_thread(client()) as own:
            await own.run(computing())

    using = asyncio.create_task(use())
    await begun.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert not closed.is_set()
    may_go_on.set()
    await closed.wait()


async def test_pieces_are_made_here_each_when_it_is_asked_for() -> None:
    here, made = threading.get_ident(), list[bytes]()

    async def making() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two"):
            assert threading.get_ident() == here
            made.append(piece)
            yield piece
        raise Broken

    async with own_thread(noting([])) as own:
        pieces = own.pulled(making())
        for expected in (b"one", b"", b"two"):
            assert await own.run(_next(pieces)) == expected == made[-1]
        with pytest.raises(Broken):
            await own.run(_next(pieces))


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces)
