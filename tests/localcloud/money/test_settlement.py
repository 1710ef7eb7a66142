"""The monthly settlement: on the 1st at 00:10 UTC, one debit of whole cents, the rest carried."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from tests.localcloud.support.billing import transactions
from tests.localcloud.support.workloads import (
    DAY,
    UNTIL_RUNNING,
    act,
    balance,
    new_pod,
    own_node,
    running_pod,
    set_organization,
    status,
    usage,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

HOUR = 3600


@dataclass(frozen=True)
class Year:
    """A year that the module's clock has not reached: each test has one of its own."""

    server: Server
    number: int

    async def at(self, instant: str) -> None:
        """Set the clock to an instant of the year, such as `01-31T23:59:58Z`."""
        await at(self.server, f"{self.number}-{instant}")

    def debit(self, month: str, cents: int) -> tuple[str, int, str]:
        """The transaction that settles a month."""
        return "usage", -cents, f"Usage of {self.number}-{month}"


@pytest_asyncio.fixture
async def year(server: Server) -> Year:
    return Year(server, int((await server.advance(0))[:4]) + 1)


async def at(server: Server, instant: str) -> None:
    """Set the clock."""
    await server.ok("POST", "/clock", {"set": instant})


async def fields(organization: Organization) -> dict[str, Any]:
    """The balance's amounts that a settlement may change."""
    shown = await balance(organization)
    return {name: shown[f"{name}Cents"] for name in ("balance", "available", "accruedUsage", "currentMonthUsage")}


async def cpu_vm(organization: Organization) -> str:
    """The id of a VM that runs and costs 4 cents an hour."""
    vm = await organization.ok("POST", "/v1/orgs/{org}/vms/create", {"name": "cpu"})
    await organization.server.advance(UNTIL_RUNNING)
    return str(vm["id"])


async def test_a_month_is_settled_at_ten_past_midnight_by_one_debit(year: Year) -> None:
    await year.at("01-31T22:59:58Z")
    organization = await year.server.organization()
    await running_pod(organization)
    await year.at("02-01T00:09:59Z")
    before = {"balance": 100_000, "available": 100_000 - 290, "accruedUsage": 290, "currentMonthUsage": 41}
    assert await fields(organization) == before
    await year.at("02-01T00:10:00Z")
    after = {"balance": 99_751, "available": 99_751 - 41, "accruedUsage": 41, "currentMonthUsage": 41}
    assert await fields(organization) == after
    assert (await usage(organization))["usageCents"] == 41
    settled = (await balance(organization))["transactions"][0]
    assert settled.pop("id").startswith("txn_")
    assert settled == {
        "type": "usage",
        "amountCents": -249,
        "createdAt": f"{year.number}-02-01T00:10:00.000000Z",
        "description": f"Usage of {year.number}-01",
    }
    await year.at("02-28T23:59:59Z")
    assert await transactions(organization) == [year.debit("01", 249)]


async def test_the_rest_of_a_cent_is_carried_into_the_next_month(year: Year) -> None:
    await year.at("01-31T23:44:00Z")
    organization = await year.server.organization()
    vm_id = await cpu_vm(organization)
    # 958 seconds at 4 cents an hour are a cent and 232 of the 3,600 units of the next.
    await year.at("02-01T00:10:00Z")
    assert await transactions(organization) == [year.debit("01", 1)]
    # With the 232 units the next cent is full after 842 seconds instead of 900.
    await year.at("02-01T00:14:01Z")
    assert await fields(organization) == {
        "balance": 99_999,
        "available": 99_999,
        "accruedUsage": 0,
        "currentMonthUsage": 0,
    }
    await year.at("02-01T00:14:02Z")
    assert await fields(organization) == {
        "balance": 99_999,
        "available": 99_998,
        "accruedUsage": 1,
        "currentMonthUsage": 0,
    }
    await act(organization, vm_id, "stop")
    await year.at("03-01T00:10:00Z")
    assert await transactions(organization) == [year.debit("01", 1), year.debit("02", 1)]
    assert await fields(organization) == {
        "balance": 99_998,
        "available": 99_998,
        "accruedUsage": 0,
        "currentMonthUsage": 0,
    }


async def test_every_month_that_passes_at_once_has_its_own_debit(year: Year) -> None:
    await year.at("01-31T00:00:00Z")
    organization = await year.server.organization(balanceCents=10_000_000)
    await running_pod(organization)
    await year.at("04-15T00:00:00Z")
    february = (date(year.number, 3, 1) - date(year.number, 2, 1)).days
    assert await transactions(organization) == [
        year.debit("01", 249 * (DAY - UNTIL_RUNNING) // HOUR),
        year.debit("02", 249 * 24 * february),
        year.debit("03", 249 * 24 * 31),
    ]
    settled_at = [item["createdAt"] for item in (await balance(organization))["transactions"]]
    assert settled_at[:3] == [f"{year.number}-{month}-01T00:10:00.000000Z" for month in ("04", "03", "02")]


async def test_what_ended_before_its_settlement_is_settled_all_the_same(year: Year) -> None:
    await year.at("01-10T00:00:00Z")
    organization = await year.server.organization()
    pod_id = await running_pod(organization)
    await year.server.advance(HOUR)
    await act(organization, pod_id, "terminate")
    await year.at("12-31T00:00:00Z")
    assert await transactions(organization) == [year.debit("01", 249)]


async def test_a_start_in_the_ten_minutes_before_a_settlement_delays_nothing(year: Year) -> None:
    await year.at("01-10T00:00:00Z")
    organization = await year.server.organization()
    pod_id = await running_pod(organization)
    await year.server.advance(HOUR)
    await act(organization, pod_id, "stop")
    await year.at("02-01T00:04:58Z")
    await act(organization, pod_id, "restart")
    await year.at("02-01T00:10:00Z")
    assert await transactions(organization) == [year.debit("01", 249)]
    assert (await fields(organization))["accruedUsage"] == 249 * 300 // HOUR


async def test_a_stint_within_the_ten_minutes_is_settled_a_month_later(year: Year) -> None:
    await year.at("01-31T23:59:58Z")
    organization = await year.server.organization()
    pod_id = await running_pod(organization)
    await year.at("02-01T00:05:00Z")
    await act(organization, pod_id, "terminate")
    await year.at("02-01T00:10:00Z")
    assert await transactions(organization) == []
    await year.at("03-01T00:10:00Z")
    assert await transactions(organization) == [year.debit("02", (249 * 300 // HOUR))]


async def test_a_start_in_the_very_instant_of_a_settlement_puts_it_off_by_nothing(year: Year) -> None:
    """The settlement is set last, by the start of another pod, so that it comes after the start of its instant."""
    await year.at("01-10T00:00:00Z")
    organization = await year.server.organization(balanceCents=1_000_000)
    first, second = [await running_pod(organization) for _ in range(2)]
    await act(organization, first, "stop")
    await year.server.advance(HOUR)
    await act(organization, second, "stop")
    january = 249 * (UNTIL_RUNNING + HOUR) // HOUR
    await year.at("02-01T00:09:57Z")
    await act(organization, first, "restart")
    await year.server.advance(1)
    await act(organization, second, "restart")
    await year.server.advance(1)
    await act(organization, first, "stop")
    await year.at("02-01T00:10:00Z")
    assert await status(organization, second) == "running"
    assert await transactions(organization) == [year.debit("01", january)]
    await year.at("03-01T00:10:00Z")
    days = (date(year.number, 3, 1) - date(year.number, 2, 1)).days
    february = 249 * (days * DAY - 600) // HOUR
    assert (await transactions(organization))[1:] == [year.debit("02", february)]


async def test_a_settlement_moves_no_auto_stop(year: Year) -> None:
    await year.at("01-31T23:59:58Z")
    organization = await year.server.organization(balanceCents=249)
    pod_id = await running_pod(organization)
    # 250 cents at 249 an hour are used up after 3,614.5 seconds.
    await year.at("02-01T01:00:14Z")
    assert await status(organization, pod_id) == "running"
    await year.at("02-01T01:00:15Z")
    assert await status(organization, pod_id) == "stopping"


async def test_a_settlement_is_no_funding_of_what_the_balance_stopped(year: Year) -> None:
    await year.at("01-31T00:00:00Z")
    organization = await year.server.organization(balanceCents=249)
    pod_id = await running_pod(organization)
    await year.at("02-08T00:00:00Z")
    assert await status(organization, pod_id) == "terminated"
    assert await transactions(organization) == [year.debit("01", 250)]
    assert (await fields(organization))["balance"] == -1


async def test_the_spend_limit_begins_anew_with_the_month_not_with_its_settlement(year: Year) -> None:
    await year.at("01-31T22:00:00Z")
    organization = await year.server.organization()
    await running_pod(organization)
    await set_organization(organization, monthlySpendLimitCents=249)
    await year.at("01-31T23:59:59Z")
    refused = await organization.call("POST", "/v1/pods", {"image": "app:1", "gpuModelId": "h100"})
    assert refused.refusal == (402, "SPEND_LIMIT_REACHED")
    await year.at("02-01T00:00:00Z")
    await new_pod(organization)


async def test_settlements_go_on_after_a_kill(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    await at(server, "2030-01-31T22:59:58Z")
    await running_pod(server.seeded())
    server.kill()
    server.start()
    await at(server, "2030-02-02T00:00:00Z")
    assert await transactions(server.seeded()) == [("usage", -249, "Usage of 2030-01")]


async def test_a_hundred_workloads_settle_exactly_over_thirty_days(year: Year) -> None:
    await year.at("01-15T00:00:00Z")
    organization = await year.server.organization(balanceCents=100_000_000)
    for _ in range(13):
        await own_node(organization)
    for _ in range(100):
        await new_pod(organization)
    await year.server.advance(UNTIL_RUNNING)
    await year.server.advance(30 * DAY)
    until_february = 17 * DAY - UNTIL_RUNNING
    settled = 100 * 249 * until_february // HOUR
    used = 100 * 249 * 30 * 24
    assert await transactions(organization) == [year.debit("01", settled)]
    assert await fields(organization) == {
        "balance": 100_000_000 - settled,
        "available": 100_000_000 - used,
        "accruedUsage": used - settled,
        "currentMonthUsage": 100 * 249 * (30 * DAY - until_february) // HOUR,
    }


async def test_the_last_month_there_is(start_server: StartServer) -> None:
    cloud = start_server("--ephemeral", "--clock", "frozen")
    await at(cloud, "9999-12-31T22:59:58Z")
    organization = await cloud.organization()
    await running_pod(organization)
    await at(cloud, "9999-12-31T23:59:59Z")
    assert (await fields(organization))["accruedUsage"] == 249 * (HOUR - 1) // HOUR
