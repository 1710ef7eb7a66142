"""The machine's clock may leap, running and between two starts: the cloud's time goes on, and nothing ends by it."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_localcloud.clock.clock import KEPT_EVERY, Clock
from relay_localcloud.clock.state import LARGEST_GAP, ClockState, steady
from relay_localcloud.kernel.instants import DAY, HOUR, LAST, SECOND
from relay_localcloud.kernel.store import Store
from tests.localcloud.support.machine import Machine
from tests.localcloud.support.server import request
from tests.localcloud.support.workloads import act, balance, new_pod, record, set_organization, status
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

MONTH = 30 * 86_400
NOW = 1_800_000_000 * SECOND


def kept(rate: float = 1.0, ahead: int = 0) -> ClockState:
    return ClockState(mode="real" if rate else "frozen", rate=rate, cloud=NOW, wall=NOW + 5, ahead=ahead)


# The arithmetic.


@pytest.mark.parametrize(
    ("away", "moves", "ahead"),
    [
        (-HOUR, 0, -HOUR),
        (-1, 0, -1),
        (0, 0, 0),
        (1, 1, 0),
        (LARGEST_GAP, LARGEST_GAP, 0),
        (LARGEST_GAP + 1, 0, LARGEST_GAP + 1),
        (30 * DAY, 0, 30 * DAY),
    ],
)
def test_time_goes_on_from_where_it_was_unless_the_gap_can_be_believed(away: int, moves: int, ahead: int) -> None:
    state = kept().resumed(NOW + 5 + away)
    assert (state.at(NOW + 5 + away), state.ahead) == (NOW + moves, ahead)
    assert state.at(NOW + 5 + away + SECOND) == NOW + moves + SECOND
    assert state.gap == (ahead if ahead > LARGEST_GAP else 0)


@given(st.lists(st.integers(-60 * DAY, 60 * DAY), max_size=10))
def test_over_any_starts_time_never_goes_back_and_none_of_it_is_lost(leaps: list[int]) -> None:
    state, wall = kept(), NOW + 5
    for leap in leaps:
        wall = max(wall + leap, 0)
        resumed = state.resumed(wall)
        assert state.cloud <= resumed.cloud <= state.cloud + LARGEST_GAP
        assert resumed.cloud + resumed.ahead == NOW + wall - (NOW + 5)
        state = resumed


def test_a_leap_and_back_again_leave_nothing_behind() -> None:
    leapt = kept().resumed(NOW + 5 + 30 * DAY)
    back = leapt.resumed(NOW + 5 + 60 * SECOND)
    assert (back.cloud, back.ahead) == (NOW + 60 * SECOND, 0)


def test_a_scaled_clock_goes_on_at_its_rate_and_a_frozen_one_stands() -> None:
    assert kept(60.0).resumed(NOW + 5 + HOUR).cloud == NOW + 60 * HOUR
    assert kept(60.0).resumed(NOW + 5 + 2 * DAY).gap == 120 * DAY
    assert kept(0.0).resumed(NOW + 5 + 30 * DAY) == kept(0.0)


def test_a_reading_moves_nothing() -> None:
    state = kept(2.5)
    assert state.read(NOW + 5 + HOUR).at(NOW + 5 + 2 * HOUR) == state.at(NOW + 5 + 2 * HOUR)
    assert state.at(LAST * 2) == LAST


def test_whoever_sets_the_clock_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = steady()
    real = time.time_ns
    before = machine()
    monkeypatch.setattr(time, "time_ns", lambda: real() - 3600 * 10**9)
    between = machine()
    monkeypatch.setattr(time, "time_ns", lambda: real() + MONTH * 10**9)
    assert before <= between <= machine() < before + HOUR


def test_a_kill_forgets_at_most_ten_seconds_of_the_time_that_passed(tmp_path: Path) -> None:
    machine = [NOW]

    def opened(store: Store) -> Clock:
        return Clock(store, {}, [], lambda: machine[0], "real")

    store = Store.at(tmp_path)
    clock = opened(store)
    machine[0] += KEPT_EVERY + 5 * SECOND
    with store.transaction():
        known = clock.now()
    machine[0] += KEPT_EVERY - 1
    with store.transaction():
        pass
    store.close()  # and nothing is written by then, as where the process is killed
    machine[0] -= HOUR
    store = Store.at(tmp_path)
    assert (known, opened(store).now()) == (NOW + KEPT_EVERY + 5 * SECOND, known)
    store.close()


# A cloud on such a machine.


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def running(machine: Machine) -> Iterator[Server]:
    server = machine.start()
    yield server
    server.kill()


async def clock(server: Server) -> tuple[datetime, Any]:
    """The cloud's time, and its gap in seconds."""
    shown = await server.ok("GET", "/clock")
    return datetime.fromisoformat(shown["now"]), shown.get("gapSeconds")


async def two_pods(server: Server) -> list[tuple[Organization, str]]:
    """One that runs, and one that the balance stopped, which is deleted in seven days."""
    await server.ok("PATCH", "/settings", {"placementSeconds": 0, "startSeconds": 0, "stopSeconds": 0})
    pods = []
    for _ in range(2):
        organization = await server.organization()
        pods.append((organization, (await new_pod(organization, gpuCount=4))["id"]))
        await _becomes(*pods[-1], "running")
    await set_organization(pods[1][0], balanceCents=-1)
    await _becomes(*pods[1], "stopped")
    return pods


async def _becomes(organization: Organization, pod_id: str, wanted: str) -> None:
    await eventually(lambda: status(organization, pod_id), lambda shown: shown == wanted, what=wanted)


async def states(server: Server, pods: list[tuple[Organization, str]]) -> list[str]:
    """Of the pods, on a server that was started since."""
    for organization, _ in pods:
        object.__setattr__(organization, "server", server)
    return [await status(*pod) for pod in pods]


async def goes_on(server: Server, since: datetime) -> datetime:
    """A later time, by no more than the test can have taken."""
    now, _ = await eventually(lambda: clock(server), lambda shown: shown[0] > since, what="a later time")
    assert now - since < timedelta(minutes=30)
    return now


@pytest.mark.parametrize("leap", [MONTH, -3600])
async def test_a_leap_while_it_runs_moves_nothing(machine: Machine, running: Server, leap: int) -> None:
    pods = await two_pods(running)
    before, _ = await clock(running)
    machine.set_clock(leap)
    await goes_on(running, before)
    assert await states(running, pods) == ["running", "stopped"]
    assert (await balance(pods[0][0]))["availableCents"] > 99_000
    await act(*pods[0], "stop")
    assert (await record(*pods[0]))["status"] in {"stopping", "stopped"}


@pytest.mark.parametrize("how", ["control", "console"])
async def test_a_leap_between_two_starts_waits_for_an_administrator(
    machine: Machine, running: Server, how: str
) -> None:
    pods = await two_pods(running)
    before, _ = await clock(running)
    running.stop()
    machine.set_clock(MONTH)
    server = machine.start()
    try:
        now, gap = await clock(server)
        assert timedelta() <= now - before < timedelta(minutes=30)
        assert MONTH <= gap < MONTH + 1800
        assert await states(server, pods) == ["running", "stopped"]
        assert (await balance(pods[0][0]))["availableCents"] > 99_000
        assert 'POST /_localcloud/clock {"gap": "apply"}' in server.log
        page = await request("GET", server.url + "/console/clock")
        assert b"The machine's clock is" in page.raw
        assert b"Let it pass" in page.raw
        if how == "control":
            await server.ok("POST", "/clock", {"gap": "apply"})
        else:
            form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
            pressed = await request("POST", server.url + "/console/clock/gap", raw=b"gap=apply&back=/", headers=form)
            assert pressed.status == 303, pressed.raw
        later, gap = await clock(server)
        assert timedelta(seconds=MONTH) <= later - now < timedelta(seconds=MONTH + 1800)
        assert gap is None
        gone = [await organization.call("GET", f"/v1/vms/{pod_id}") for organization, pod_id in pods]
        assert [answer.status for answer in gone] == [404, 404]
    finally:
        server.kill()


async def test_a_gap_can_be_forgotten_for_good(machine: Machine, running: Server) -> None:
    pods = await two_pods(running)
    before, _ = await clock(running)
    running.stop()
    machine.set_clock(MONTH)
    server = machine.start()
    assert (await server.ok("POST", "/clock", {"gap": "dismiss"})).keys() == {"now", "mode", "rate"}
    server.stop()
    server = machine.start()
    try:
        now, gap = await clock(server)
        assert timedelta() <= now - before < timedelta(minutes=30)
        assert gap is None
        assert await states(server, pods) == ["running", "stopped"]
        assert "ahead of where" not in server.log
    finally:
        server.kill()


async def test_there_and_back_between_starts_is_as_if_nothing_had_been(machine: Machine, running: Server) -> None:
    pods = await two_pods(running)
    before, _ = await clock(running)
    running.stop()
    for offset in (MONTH, 0):
        machine.set_clock(offset)
        server = machine.start()
        try:
            now, gap = await clock(server)
            assert timedelta() <= now - before < timedelta(minutes=30)
            assert (gap is None) == (offset == 0)
            assert await states(server, pods) == ["running", "stopped"]
        finally:
            server.stop()


@pytest.mark.parametrize("killed", [False, True])
async def test_an_hour_back_between_two_starts_stops_nothing(
    machine: Machine, running: Server, *, killed: bool
) -> None:
    pods = await two_pods(running)
    before, _ = await clock(running)
    if killed:
        running.kill()
    else:
        running.stop()
    machine.set_clock(-3600)
    server = machine.start()
    try:
        assert "behind this cloud's time, which continues" in server.log
        await states(server, pods)
        now, _ = await clock(server)
        assert now >= before - (timedelta(minutes=1) if killed else timedelta())
        await eventually(lambda: balance(pods[0][0]), lambda shown: shown["accruedUsageCents"] > 0, what="usage")
    finally:
        server.kill()


async def test_an_old_export_goes_on_from_its_own_time(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "real")
    pods = await two_pods(server)
    before, _ = await clock(server)
    export = await server.ok("GET", "/export")
    kept = next(row for row in export["tables"]["meta"] if row["name"] == "clock")
    shown = json.loads(kept["value"])
    kept["value"] = json.dumps({**shown, "wall": shown["wall"] - MONTH * SECOND})
    await server.ok("POST", "/import", export)
    now, gap = await clock(server)
    assert timedelta() <= now - before < timedelta(minutes=30)
    assert MONTH <= gap < MONTH + 1800
    assert await states(server, pods) == ["running", "stopped"]


@pytest.mark.parametrize(
    "body",
    [
        {"gap": "apply"},
        {"gap": "dismiss"},
        {"gap": "later"},
        {"gap": True},
        {"gap": "apply", "advanceSeconds": 1},
        {"gap": "dismiss", "set": "2040-01-01T00:00:00Z"},
    ],
)
async def test_a_gap_that_is_not_there_or_makes_no_sense_is_400(server: Server, body: object) -> None:
    before = await server.ok("GET", "/clock")
    assert (await server.control("POST", "/clock", body)).refusal == (400, "invalid_request")
    assert await server.ok("GET", "/clock") == before
