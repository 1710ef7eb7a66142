"""The cloud's own clock: modes, moving, and that a move is over when all that fell due is done."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server

FRESH = ("--ephemeral", "--clock", "frozen")


def at(shown: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(shown["now"])


async def test_a_frozen_clock_stands_still(server: Server) -> None:
    first = await server.ok("GET", "/clock")
    assert first == {"now": first["now"], "mode": "frozen", "rate": 0}
    assert first["now"].endswith("Z")
    assert await server.ok("GET", "/clock") == first


async def test_advancing_moves_a_frozen_clock_by_exactly_that(server: Server) -> None:
    before = await server.ok("GET", "/clock")
    after = await server.ok("POST", "/clock", {"advanceSeconds": 86_400.25})
    assert at(after) - at(before) == timedelta(days=1, milliseconds=250)
    assert after == await server.ok("GET", "/clock")


@pytest.mark.parametrize("body", [{}, {"mode": None, "rate": None, "set": None, "advanceSeconds": None}])
async def test_a_change_of_nothing_settles_what_is_due_now(server: Server, body: object) -> None:
    assert (
        await server.ok("POST", "/clock", body) == await server.ok("POST", "/clock") == await server.ok("GET", "/clock")
    )


async def test_the_clock_can_be_set_ahead_but_not_back(server: Server) -> None:
    before = await server.ok("GET", "/clock")
    ahead = at(before) + timedelta(days=3)
    assert at(await server.ok("POST", "/clock", {"set": ahead.isoformat()})) == ahead
    back = await server.control("POST", "/clock", {"set": before["now"]})
    assert back.refusal == (400, "invalid_request")
    assert at(await server.ok("GET", "/clock")) == ahead
    assert at(await server.ok("POST", "/clock", {"set": ahead.isoformat()})) == ahead


async def test_a_timestamp_may_name_another_zone(server: Server) -> None:
    before = at(await server.ok("GET", "/clock"))
    ahead = before + timedelta(hours=5)
    shifted = ahead.replace(tzinfo=None) + timedelta(hours=2)
    assert at(await server.ok("POST", "/clock", {"set": shifted.isoformat() + "+02:00"})) == ahead


async def test_a_timestamp_may_be_in_lower_case(server: Server) -> None:
    ahead = at(await server.ok("GET", "/clock")) + timedelta(hours=5)
    written = ahead.replace(tzinfo=None).isoformat().lower() + "z"
    assert at(await server.ok("POST", "/clock", {"set": written})) == ahead


async def test_a_real_clock_goes_on_from_where_it_was_moved_to(start_server: StartServer) -> None:
    server = start_server(*FRESH)
    frozen = at(await server.ok("POST", "/clock", {"advanceSeconds": 1000}))
    shown = await server.ok("POST", "/clock", {"mode": "real"})
    assert (shown["mode"], shown["rate"]) == ("real", 1)
    later = await eventually(lambda: server.ok("GET", "/clock"), lambda now: at(now) > frozen, every=0.01)
    assert at(later) - frozen < timedelta(minutes=5)
    stopped = await server.ok("POST", "/clock", {"mode": "frozen"})
    assert await server.ok("GET", "/clock") == stopped


async def test_a_scaled_clock_goes_as_fast_as_told(start_server: StartServer) -> None:
    server = start_server(*FRESH)
    before = at(await server.ok("POST", "/clock", {"mode": "scaled", "rate": 10_000}))

    async def look() -> timedelta:
        return at(await server.ok("GET", "/clock")) - before

    await eventually(look, lambda gone: gone > timedelta(minutes=30), every=0.02)
    shown = await server.ok("POST", "/clock", {"rate": 2})
    assert (shown["mode"], shown["rate"]) == ("scaled", 2)


@pytest.mark.parametrize(
    "body",
    [
        {"mode": "backwards"},
        {"mode": None, "speed": 2},
        {"advanceSeconds": -1},
        {"advanceSeconds": "60"},
        {"advanceSeconds": True},
        {"advanceSeconds": 10**300},
        {"advanceSeconds": 9_000 * 366 * 86_400},
        {"set": "yesterday"},
        {"set": "2040-01-01T00:00:00"},
        {"set": "1969-12-31T23:59:59Z"},
        {"set": "0001-01-01T00:00:00+23:59"},
        {"set": "9999-12-31T23:59:59-23:59"},
        {"set": 4102444800},
        {"set": "2040-01-01T00:00:00Z", "advanceSeconds": 1},
        {"rate": 2},
        {"mode": "real", "rate": 2},
        {"mode": "scaled"},
        {"mode": "scaled", "rate": 0},
        {"mode": "scaled", "rate": -1},
        {"mode": "scaled", "rate": 1e300},
        [],
        "frozen",
        None,
    ],
)
async def test_what_the_clock_cannot_do_is_400_and_changes_nothing(server: Server, body: object) -> None:
    before = await server.ok("GET", "/clock")
    assert (await server.control("POST", "/clock", body)).refusal == (400, "invalid_request")
    assert await server.ok("GET", "/clock") == before


async def test_an_empty_change_answers_the_time(server: Server) -> None:
    assert await server.ok("POST", "/clock", {}) == await server.ok("GET", "/clock")


@pytest.mark.parametrize("mode", ["real", "frozen"])
async def test_the_rate_that_a_mode_has_may_be_repeated(server: Server, mode: str) -> None:
    shown = await server.ok("POST", "/clock", {"mode": mode})
    again = await server.ok("POST", "/clock", {"mode": mode, "rate": shown["rate"]})
    await server.ok("POST", "/clock", {"mode": "frozen"})
    assert (again["mode"], again["rate"]) == (mode, {"real": 1, "frozen": 0}[mode])
