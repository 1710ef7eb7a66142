"""Organizations share the log of requests: none pushes out what another did, and all of it is bounded."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.http.exchange import Exchange
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.requestlog import KEPT, LARGEST, RequestLog
from tests.localcloud.support.keepalive import Line

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

GROWS_TO = KEPT + KEPT // 16
WORDY = {"image": "a", **{f"{nr:03}" + "x" * 197: 1 for nr in range(100)}}
"""A pod with as many unread fields as are kept, each as long as is kept: 25 KB in the log."""


def add(log: RequestLog, organization_id: str, count: int) -> None:
    """Log requests of an organization."""
    caller = Principal("api_key", organization_id, ())
    for _ in range(count):
        log.add("GET", "/v1/whoami", Exchange("GET /v1/whoami", {}, caller, status=200))


def counted(log: RequestLog) -> Counter[str | None]:
    return Counter(logged.organization_id for logged in log.after(0, None))


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_the_log_is_shortened_once_it_is_beyond_its_bound(beyond: int) -> None:
    log = RequestLog(lambda: 0)
    add(log, "busy", GROWS_TO + beyond)
    kept = [logged.seq for logged in log.after(0, None)]
    assert len(kept) == (KEPT if beyond > 0 else GROWS_TO + beyond)
    assert kept == list(range(log.last - len(kept) + 1, log.last + 1))


def test_a_flood_pushes_out_the_flooders_own_requests() -> None:
    log = RequestLog(lambda: 0)
    add(log, "quiet", 10)
    add(log, "middling", KEPT // 4)
    add(log, "busy", 3 * KEPT)
    assert (counted(log)["quiet"], counted(log)["middling"]) == (10, KEPT // 4)
    assert KEPT <= counted(log).total() <= GROWS_TO
    assert [logged.seq for logged in log.before(None, None)] == sorted(
        (logged.seq for logged in log.after(0, None)), reverse=True
    )
    assert [logged.seq for logged in log.after(4, "quiet")] == [5, 6, 7, 8, 9, 10]
    assert [logged.seq for logged in log.before(3, "quiet")] == [2, 1]
    assert list(log.before(None, "nobody")) == []


def test_two_that_flood_have_half_each() -> None:
    log = RequestLog(lambda: 0)
    for _ in range(20):
        add(log, "one", KEPT // 10)
        add(log, "other", KEPT // 10)
    assert min(counted(log).values()) >= KEPT // 2 - KEPT // 10


async def test_a_flood_of_large_requests_is_bounded_by_bytes(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    quiet, busy = await server.organization(), await server.organization()
    for _ in range(3):
        await quiet.ok("GET", "/v1/whoami")
    line = Line(server.url)
    most = (LARGEST + LARGEST // 16) // 25_000
    for _ in range(most + 100):
        status, _, _ = line.call(busy.api_key, "POST", "/v1/pods", WORDY)
        assert status in {200, 503}
    items = (await server.ok("GET", "/requests"))["items"]
    of = {each.id: [item["seq"] for item in items if item["organizationId"] == each.id] for each in (quiet, busy)}
    assert of[quiet.id] == [1, 2, 3]
    assert most * 2 // 3 < len(of[busy.id]) < most
    assert of[busy.id] == list(range(of[busy.id][0], most + 104))
