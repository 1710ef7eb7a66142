"""Money: the ledger, the meter of each organization, and one usage record per running stint.

No timer accrues usage: a meter is read forward on request (`accrual.py`). What falls due are two alarms, the auto-stop
and the auto-recharge, set for the first instant at which the available balance is below the floor or the threshold, and
set again whenever the burn, the balance or one of the two changes; and the monthly settlement, which does not change
what is available.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from sqlalchemy import bindparam, select

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.instants import LAST
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, days, earned, ledger
from relay_localcloud.money.accrual import Meter
from relay_localcloud.money.ledger import (
    ACCOUNTS,
    ATTEMPTS,
    CARDS,
    TRANSACTIONS,
    USAGE,
    USUAL_CARD,
    Kind,
    UsageRecord,
    metered,
)

AUTO_STOP = "billing.auto_stop"
AUTO_RECHARGE = "billing.auto_recharge"
SETTLEMENT = "billing.settlement"
FUNDED = "billing.funded"

_LIMITS: Final = Prepared(
    select(
        tables.organizations.c.auto_stop_floor_cents,
        tables.organizations.c.deposit_cap_cents,
        tables.organizations.c.monthly_spend_limit_cents,
    ).where(tables.organizations.c.id == bindparam("organization"))
)


@dataclass(frozen=True, slots=True)
class Account:
    """An organization's money, with its meter read at the time of the request."""

    organization_id: str
    balance_cents: int
    meter: Meter
    floor_cents: int
    deposit_cap_cents: int
    monthly_spend_limit_cents: int | None
    funded_at: int | None
    recharge_threshold_cents: int | None  # None: auto-recharge is off

    @property
    def available_cents(self) -> int:
        """What the deploy gate checks (section 2, "Balance")."""
        return self.balance_cents - accrual.cents(self.meter.accrued_units)

    @property
    def is_funded(self) -> bool:
        """Whether it is above the floor, so that workloads may start and are kept."""
        return self.available_cents > self.floor_cents

    @property
    def min_deposit_cents(self) -> int:
        """The smallest deposit allowed now."""
        return accrual.min_deposit_cents(
            self.available_cents, self.floor_cents, self.meter.burn, self.deposit_cap_cents
        )


@dataclass(frozen=True, slots=True)
class Billed:
    """What a stint is billed for; the rate covers all of it, in cents per hour, and does not change.

    `node_id` is the node that it runs on, whose provider earns by it; None without GPUs.
    """

    organization_id: str
    holder_id: str
    resource_id: str
    kind: str
    name: str
    gpu_model_id: str | None
    rate_cents: int
    node_id: str | None


def account(tx: Tx, organization_id: str) -> Account:
    """The organization's account as of `tx.now`; empty if nothing has been posted or used."""
    limits = _LIMITS.run(tx.connection, organization=organization_id).fetchone()
    if limits is None:
        raise ApiError(404, f"There is no organization {organization_id!r}.")
    floor, cap, limit = limits
    row = ACCOUNTS.find(tx, organization_id=organization_id)
    if row is None:
        return Account(organization_id, 0, _fresh_meter(tx), floor, cap, limit, None, None)
    threshold = row.recharge_threshold_cents if row.recharge_enabled else None
    meter = accrual.read(row.meter, tx.now)
    return Account(organization_id, row.balance_cents, meter, floor, cap, limit, row.funded_at, threshold)


def require_funds(tx: Tx, organization_id: str) -> None:
    """The deploy gate: refuse with 402 if nothing is available above the floor, or the month's limit is spent."""
    has = account(tx, organization_id)
    if not has.is_funded:
        raise ApiError(
            402,
            f"The available balance of {has.available_cents} cents is at or below the floor of {has.floor_cents}: "
            "add funds, then try again.",
            "INSUFFICIENT_BALANCE",
        )
    spent, limit = accrual.cents(has.meter.month_units), has.monthly_spend_limit_cents
    if limit is not None and spent >= limit:
        raise ApiError(
            402,
            f"The month's usage of {spent} cents has reached the spend limit of {limit}: what runs continues, and "
            "nothing else starts until the month is over or the limit is raised.",
            "SPEND_LIMIT_REACHED",
        )


def start_billing(tx: Tx, billed: Billed, began_at: int | None = None, *, wanted_at: int | None = None) -> None:
    """Open a usage record: a running stint began at the given rate.

    It began at `began_at`, as a runtime saw it, but neither before it was wanted nor in the future; now if one of both
    is unknown.
    """
    since = tx.now if began_at is None or wanted_at is None else min(max(began_at, wanted_at), tx.now)
    USAGE.insert(tx, started_at=since, **asdict(billed))
    days.began(tx, billed.organization_id, billed.rate_cents, since)
    if billed.node_id is not None:
        earned.began(tx, billed.node_id, billed.rate_cents, since)
    _change_burn(tx, billed.organization_id, billed.rate_cents, since)


def stop_billing(tx: Tx, organization_id: str, *holder_ids: str, ended_at: int | None = None) -> None:
    """Close the open usage records of holders, if any, and count those together that end together.

    A stint ended at `ended_at`, as a runtime saw it, but neither before it began nor in the future; now if None.
    """
    ended: defaultdict[int, list[UsageRecord]] = defaultdict(list)
    for holder_id in holder_ids:
        stint = USAGE.find(tx, holder_id=holder_id, ended_at=None)
        if stint is not None:
            ended[tx.now if ended_at is None else min(max(ended_at, stint.started_at), tx.now)].append(stint)
    for until, stints in ended.items():
        _close(tx, organization_id, stints, until)


def _close(tx: Tx, organization_id: str, stints: Sequence[UsageRecord], until: int) -> None:
    on_nodes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for stint in stints:
        USAGE.change(tx, stint.sequence, ended_at=until)
        if stint.node_id is not None:
            on_nodes[stint.node_id].append((stint.started_at, stint.rate_cents))
    ledger.ENDED.one_ended(tx)
    for node_id, runs in on_nodes.items():
        earned.ended(tx, node_id, runs, until)
    burn = sum(stint.rate_cents for stint in stints)
    days.ended(tx, organization_id, len(stints), burn, until)
    _change_burn(tx, organization_id, -burn, until)


def post(tx: Tx, organization_id: str, kind: Kind, amount_cents: int, description: str) -> None:
    """Write a transaction and change the balance by it; money that lifts it over the floor counts as funding."""
    _write(tx, organization_id, kind, amount_cents, description)
    compare_with_floor(tx, organization_id)


def debit(tx: Tx, organization_id: str, cents: int, description: str) -> None:
    """Debit the balance by usage that was never accrued, with a transaction."""
    _write(tx, organization_id, "usage", -cents, description)
    _set_alarms(tx, account(tx, organization_id))


def settle(tx: Tx, has: Account, cents: int, description: str) -> None:
    """Turn whole cents of accrued usage of earlier months into a transaction; what is available stays the same."""
    _write(tx, has.organization_id, "usage", -cents, description)
    rest = has.meter.earlier_units - cents * accrual.UNITS_PER_CENT
    ACCOUNTS.change(tx, has.organization_id, **metered(replace(has.meter, earlier_units=rest)))


def expect_settlement(tx: Tx, organization_id: str, since: int) -> None:
    """Schedule the first settlement that is not before the instant `since`."""
    due_at = accrual.settlement_at(since)
    if due_at <= LAST:
        tx.schedule(due_at, SETTLEMENT, organization_id)


def set_balance(tx: Tx, organization_id: str, balance_cents: int) -> None:
    """Set the balance to this value, by a credit of the difference (control interface)."""
    difference = balance_cents - account(tx, organization_id).balance_cents
    if difference:
        post(tx, organization_id, "credit", difference, "Balance set through the control interface")
    else:
        open_account(tx, organization_id)
        compare_with_floor(tx, organization_id)


def open_account(tx: Tx, organization_id: str) -> None:
    """Open an organization's account, with one saved card, unless it has one."""
    if ACCOUNTS.add(tx, organization_id=organization_id, balance_cents=0, **metered(_fresh_meter(tx))):
        CARDS.insert(tx, id=tx.new_id("pm"), organization_id=organization_id, **USUAL_CARD)


def compare_with_floor(tx: Tx, organization_id: str) -> None:
    """Apply a change of the balance or of the floor; an account above the floor counts as funded."""
    has = account(tx, organization_id)
    if has.is_funded:
        ACCOUNTS.change(tx, organization_id, funded_at=tx.now)
        tx.schedule(tx.now, FUNDED, organization_id)
    _set_alarms(tx, has)


def reset_alarms(tx: Tx, organization_id: str) -> None:
    """Set the alarms again after a change of the organization's auto-recharge."""
    _set_alarms(tx, account(tx, organization_id))


def _fresh_meter(tx: Tx) -> Meter:
    return Meter(tx.now, accrual.month_start(tx.now), 0, 0, 0)


def _write(tx: Tx, organization_id: str, kind: Kind, amount_cents: int, description: str) -> None:
    said = {"type": kind, "amount_cents": amount_cents, "description": description}
    TRANSACTIONS.insert(tx, id=tx.new_id("txn"), organization_id=organization_id, **said, created_at=tx.now)
    open_account(tx, organization_id)
    balance_cents = account(tx, organization_id).balance_cents + amount_cents
    ACCOUNTS.change(tx, organization_id, balance_cents=balance_cents)


def _change_burn(tx: Tx, organization_id: str, by: int, since: int) -> None:
    has = account(tx, organization_id)
    if has.funded_at is None and has.balance_cents == 0:
        open_account(tx, organization_id)
    if has.meter.burn == 0:
        expect_settlement(tx, organization_id, tx.now)
    meter = accrual.turned(has.meter, by, since)
    ACCOUNTS.change(tx, organization_id, **metered(meter))
    _set_alarms(tx, replace(has, meter=meter))


def _set_alarms(tx: Tx, has: Account) -> None:
    """Schedule the auto-stop and the auto-recharge for the instants at which they are due, or cancel them."""
    stop_at = accrual.instant_below(has.meter, has.balance_cents, has.floor_cents) if has.meter.burn else None
    _set_alarm(tx, AUTO_STOP, has.organization_id, stop_at, tx.now)
    if has.recharge_threshold_cents is None:
        return
    attempts = ATTEMPTS.find(tx, organization_id=has.organization_id)
    recharge_at = accrual.instant_below(has.meter, has.balance_cents, has.recharge_threshold_cents)
    if attempts is not None and attempts.charge_id is not None:
        recharge_at = None
    _set_alarm(tx, AUTO_RECHARGE, has.organization_id, recharge_at, max(tx.now, attempts.not_before if attempts else 0))


def _set_alarm(tx: Tx, kind: str, organization_id: str, instant: int | None, not_before: int) -> None:
    if instant is None or instant > LAST:
        tx.cancel(kind, organization_id)
    else:
        tx.schedule(max(instant, not_before), kind, organization_id)
