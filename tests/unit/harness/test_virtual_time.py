"""On the loop with a time of its own, a bound is reached where nothing comes, and nowhere else."""

import asyncio
import socket
import threading
import time

import pytest

pytestmark = pytest.mark.virtual_time


async def test_a_bound_is_not_reached_while_the_machine_stands_still() -> None:
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here)
    async with asyncio.timeout(0.01):
        time.sleep(0.1)  # noqa: ASYNC251 - as a machine does that has no time for this process
        there.send(b"x")
        assert await reader.readexactly(1) == b"x"
    writer.close()
    there.close()


async def test_what_never_comes_is_given_up_at_once_and_what_is_due_sooner_comes_first() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    loop.call_later(3000, told.append, "sooner")
    began = loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert told == ["sooner"]
    assert loop.time() - began == pytest.approx(3600)


async def test_a_job_in_a_thread_takes_the_time_that_it_takes() -> None:
    def job() -> int:
        return over.wait(60)

    over = threading.Event()
    threading.Timer(0.2, over.set).start()
    async with asyncio.timeout(60):
        assert await asyncio.to_thread(job)
