"""How long a mirror waits before it lists everything again, and what it believes if the API server went back."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio

from relay_kube.kube import CONFIG_MAPS, ApiAccess, Kube
from relay_kube.mirror import Mirror
from relay_kube.nesting import MOST
from tests.unit.engine.apiserver import ApiServer, Call, Fault, part

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_kube.kube import JsonObject

BOOKMARK = '{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "200"}}}\n'


class Enough(Exception):
    """The mirror paused as often as the test wants to know."""


@pytest_asyncio.fixture
async def server() -> AsyncIterator[ApiServer]:
    own = ApiServer(now=lambda: datetime.now(UTC))
    runner = await own.start()
    yield own
    await runner.cleanup()


async def pauses(server: ApiServer, count: int) -> list[float]:
    """The first pauses of a mirror, in seconds."""
    seen: list[float] = []

    async def pause(seconds: float) -> None:
        seen.append(seconds)
        if len(seen) == count:
            raise Enough

    async with aiohttp.ClientSession() as session:
        kube = Kube(ApiAccess(server.url, session))
        with pytest.raises(Enough):
            await Mirror(kube, CONFIG_MAPS, lambda raw: raw, lambda _: None, sleep=pause).run()
    return seen


def watched(server: ApiServer, *answers: Fault) -> None:
    """Watches are answered so, in turn."""
    left = [*answers]

    def before(call: Call) -> None:
        if ("watch", "true") in call.query:
            server.faults.append(left.pop(0) if left else Fault(403))

    server.before = before


async def test_pauses_grow_while_lists_are_answered_and_watches_are_refused(server: ApiServer) -> None:
    watched(server)
    assert await pauses(server, 8) == [0.5, 1, 2, 4, 8, 16, 30, 30]


async def test_a_watch_that_tells_something_begins_with_the_first_pause_again(server: ApiServer) -> None:
    watched(server, Fault(403), Fault(403), Fault(200, body=BOOKMARK))
    assert await pauses(server, 4) == [0.5, 1, 0.5, 1]


async def test_watches_that_end_at_once_and_tell_nothing_are_no_reason_to_ask_without_a_pause(
    server: ApiServer,
) -> None:
    watched(server, Fault(200, body=""), Fault(200, body=""), Fault(200, body=BOOKMARK))
    assert await pauses(server, 3) == [0.5, 1, 0.5]


async def test_what_a_watch_tells_of_one_that_is_full_of_lists_is_cut(server: ApiServer) -> None:
    told = list[int]()
    metadata = {"name": "a", "uid": "a", "resourceVersion": "201"}
    event = {"type": "ADDED", "object": {"metadata": metadata, "spec": {"x": [[]] * (MOST + 1)}}}
    watched(server, Fault(200, body=json.dumps(event) + "\n"))

    async def end(_seconds: float) -> None:
        raise Enough

    async with aiohttp.ClientSession() as session:
        mirror = Mirror(
            Kube(ApiAccess(server.url, session)), CONFIG_MAPS, lambda raw: len(str(raw)), told.append, sleep=end
        )
        with pytest.raises(Enough):
            await mirror.run()
    assert [size < 2_000 for size in told] == [True]


async def test_a_list_without_a_version_is_read_again(server: ApiServer) -> None:
    server.faults.append(Fault(200, body='{"items": []}', times=3))
    assert await pauses(server, 3) == [0.5, 1, 2]


def listed(version: int, *objects: tuple[str, int]) -> Fault:
    """The answer to a list: objects by name, with their versions."""
    items = [{"metadata": {"name": name, "uid": name, "resourceVersion": str(at)}} for name, at in objects]
    return Fault(200, body=json.dumps({"metadata": {"resourceVersion": str(version)}, "items": items}))


async def test_a_list_from_before_what_is_known_is_believed(server: ApiServer) -> None:
    told = list[tuple[str, int]]()
    lists = [listed(90, ("a", 80), ("b", 90)), listed(60, ("a", 50)), listed(70, ("a", 50), ("c", 70))]

    def before(call: Call) -> None:
        watch = ("watch", "true") in call.query
        server.faults.append(Fault(403) if watch else lists.pop(0))

    def read(raw: JsonObject) -> tuple[str, int]:
        metadata = part(raw, "metadata")
        return str(metadata["name"]), int(str(metadata["resourceVersion"]))

    async def pause(_seconds: float) -> None:
        if not lists:
            raise Enough

    server.before = before
    async with aiohttp.ClientSession() as session:
        mirror = Mirror(Kube(ApiAccess(server.url, session)), CONFIG_MAPS, read, told.append, sleep=pause)
        with pytest.raises(Enough):
            await mirror.run()
    assert told == [("a", 80), ("b", 90), ("a", 50), ("b", 90), ("c", 70)]
    assert sorted(mirror) == [("a", 50), ("c", 70)]


async def test_what_a_list_lacks_is_missing_since_the_api_server_was_heard_before_and_what_a_watch_ends_is_not(
    server: ApiServer,
) -> None:
    told = list[tuple[str, float | None]]()
    lists = [listed(90, ("a", 80), ("b", 90)), listed(99)]
    ended = {"type": "DELETED", "object": {"metadata": {"name": "a", "uid": "a", "resourceVersion": "91"}}}
    watches = [Fault(200, body=json.dumps(ended) + "\n"), Fault(403)]
    heard = list[float]()

    def before(call: Call) -> None:
        server.faults.append(watches.pop(0) if ("watch", "true") in call.query else lists.pop(0))

    def read(raw: JsonObject) -> str:
        return str(part(raw, "metadata")["name"])

    async def pause(_seconds: float) -> None:
        heard.append(time.monotonic() - mirror.unheard_seconds)
        if not lists:
            raise Enough

    server.before = before
    async with aiohttp.ClientSession() as session:
        mirror = Mirror(
            Kube(ApiAccess(server.url, session)),
            CONFIG_MAPS,
            read,
            lambda name: told.append((name, mirror.missing_since)),
            sleep=pause,
        )
        watches.append(Fault(403))
        with pytest.raises(Enough):
            await mirror.run()
    (*first, third, (name, since)) = told
    assert [*first, third] == [("a", None), ("b", None), ("a", None)]
    assert name == "b"
    assert since == pytest.approx(heard[0], abs=0.01)
    assert mirror.missing_since is None
