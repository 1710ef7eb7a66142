"""What tests of payments do over and over, in the words of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.localcloud.support.workloads import balance

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Organization, Server

DEPOSIT = "/v1/orgs/{org}/billing/deposit"
CARDS = "/v1/orgs/{org}/billing/payment-methods"
SETUP_INTENT = "/v1/orgs/{org}/billing/setup-intent"
RECHARGE = "/v1/orgs/{org}/billing/auto-recharge"
DAILY = "/v1/orgs/{org}/billing/usage/daily"

NOTIFIED = 2
"""Seconds until the processor tells of a charge in mode auto."""


async def deposit(organization: Organization, cents: int, **more: object) -> Any:
    """What came of a deposit that must be accepted."""
    return await organization.ok("POST", DEPOSIT, {"amountCents": cents, **more})


async def try_deposit(organization: Organization, cents: object, **more: object) -> Answer:
    """The answer to a deposit."""
    return await organization.call("POST", DEPOSIT, {"amountCents": cents, **more})


async def set_payments(server: Server, mode: str) -> None:
    """Make the payment processor behave like this."""
    assert await server.ok("POST", "/payments", {"mode": mode}) == {"mode": mode}


async def confirm(server: Server, charge_id: str) -> Any:
    """The charge, after the processor's notification."""
    return await server.ok("POST", f"/payments/{charge_id}/confirm")


async def charges(organization: Organization) -> list[Any]:
    """Every charge of the organization, the oldest first."""
    items: list[Any] = (await organization.server.ok("GET", f"/payments?organizationId={organization.id}"))["items"]
    return items


async def recharge(organization: Organization, threshold: int, amount: int, *, enabled: bool = True) -> None:
    """Save the auto-recharge settings."""
    wanted = {"enabled": enabled, "thresholdCents": threshold, "amountCents": amount}
    assert await organization.ok("PUT", RECHARGE, wanted) == wanted


async def balance_cents(organization: Organization) -> int:
    """The raw ledger balance."""
    return int((await balance(organization))["balanceCents"])


async def transactions(organization: Organization) -> list[tuple[str, int, str]]:
    """Type, amount and description of each transaction but the first credit, the oldest first."""
    shown = reversed((await balance(organization))["transactions"])
    return [(item["type"], item["amountCents"], item["description"]) for item in shown][1:]
