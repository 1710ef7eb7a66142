"""Cards are charged for play on loopback alone: beyond it an administrator adds funds, unless told otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.localcloud.support.billing import RECHARGE, SETUP_INTENT, balance_cents, deposit, recharge, try_deposit
from tests.localcloud.support.workloads import balance, running_pod, set_organization, status

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

FROZEN = ("--clock", "frozen")
BEYOND = ("--host", "0.0.0.0")
UNCONFIGURED = (503, "PAYMENTS_UNCONFIGURED")


async def mode(server: Server) -> str:
    return str((await server.ok("GET", "/payments"))["mode"])


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_on_loopback_deposits_pay_themselves(start_server: StartServer, host: str) -> None:
    server = start_server("--ephemeral", *FROZEN, "--host", host)
    organization = await server.organization()
    assert await mode(server) == "auto"
    await deposit(organization, 1000)
    await server.advance(2)
    assert await balance_cents(organization) == 101_000


async def test_beyond_loopback_nobody_funds_themselves(start_server: StartServer) -> None:
    server = start_server("--ephemeral", *FROZEN, *BEYOND)
    assert await mode(server) == "unconfigured"
    organization = await server.organization()
    assert (await try_deposit(organization, 1000)).refusal == UNCONFIGURED
    assert (await organization.call("POST", SETUP_INTENT)).refusal == UNCONFIGURED
    wanted = {"enabled": True, "thresholdCents": 200_000, "amountCents": 1000}
    assert (await organization.call("PUT", RECHARGE, wanted)).refusal == UNCONFIGURED
    await server.advance(3600)
    assert await balance_cents(organization) == 100_000


async def test_a_reset_and_an_import_change_nothing_of_that(start_server: StartServer) -> None:
    server = start_server("--ephemeral", *FROZEN, *BEYOND)
    await server.ok("POST", "/reset")
    assert await mode(server) == "unconfigured"
    private = start_server("--ephemeral", *FROZEN)
    await server.ok("POST", "/import", await private.ok("GET", "/export"))
    assert await mode(server) == "unconfigured"


async def test_an_auto_recharge_from_loopback_charges_nothing_beyond_it(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), *FROZEN)
    organization = await server.organization(balanceCents=1_000)
    await recharge(organization, 1_000, 5_000)
    server.stop()
    server = start_server("--state", str(tmp_path), *FROZEN, *BEYOND)
    object.__setattr__(organization, "server", server)
    await set_organization(organization, balanceCents=500)
    await server.advance(3600)
    assert await balance_cents(organization) == 500
    server.stop()
    server = start_server("--state", str(tmp_path), *FROZEN)
    object.__setattr__(organization, "server", server)
    assert await mode(server) == "auto"


async def test_what_the_administrator_says_holds_wherever_it_is_served(
    start_server: StartServer, tmp_path: Path
) -> None:
    server = start_server("--state", str(tmp_path), *FROZEN, *BEYOND)
    await server.ok("POST", "/payments", {"mode": "auto"})
    server.kill()
    server = start_server("--state", str(tmp_path), *FROZEN, *BEYOND)
    assert await mode(server) == "auto"
    organization = await server.organization()
    await deposit(organization, 1000)
    await server.advance(2)
    assert await balance_cents(organization) == 101_000


async def test_an_administrator_credits_and_debits(organization: Organization) -> None:
    await set_organization(organization, creditCents=5_000)
    await set_organization(organization, creditCents=-2_000)
    await set_organization(organization, creditCents=0)
    shown = await balance(organization)
    assert shown["balanceCents"] == 103_000
    newest, second, _ = shown["transactions"]
    assert [(each["type"], each["amountCents"]) for each in (newest, second)] == [("credit", -2_000), ("credit", 5_000)]
    assert newest["description"] == "Credited through the control interface"


async def test_a_credit_funds_what_the_balance_stopped(organization: Organization) -> None:
    pod = await running_pod(organization)
    await set_organization(organization, balanceCents=-1)
    await organization.server.advance(60)
    await set_organization(organization, creditCents=1_000)
    await organization.server.advance(8 * 86_400)
    assert await status(organization, pod) == "stopped"


@pytest.mark.parametrize("cents", [10**15, -(10**15)])
async def test_a_credit_has_bounds(organization: Organization, cents: int) -> None:
    path = f"/orgs/{organization.id}"
    beyond = cents + (1 if cents > 0 else -1)
    assert (await organization.server.control("PATCH", path, {"creditCents": beyond})).refusal[0] == 400
    assert await balance_cents(organization) == 100_000
    await set_organization(organization, creditCents=cents)
    assert await balance_cents(organization) == 100_000 + cents


@pytest.mark.parametrize(
    "body", [{"creditCents": 1, "balanceCents": 5}, {"creditCents": "1"}, {"creditCents": 1.5}, {"creditCents": True}]
)
async def test_a_credit_that_makes_no_sense_is_400(organization: Organization, body: object) -> None:
    answer = await organization.server.control("PATCH", f"/orgs/{organization.id}", body)
    assert answer.refusal == (400, "invalid_request")
    assert await balance_cents(organization) == 100_000
