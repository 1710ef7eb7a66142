"""What happens because of an organization's money: the auto-stop, the auto-recharge, and the monthly settlement.

Below the floor all workloads of an organization are stopped (sections 3 and 8), and say so until there are funds again.
Below the threshold its card is charged (section 2): one charge at a time, once a minute, and ever less often while
declined. On the 1st at 00:10 UTC the previous month is settled by one debit of whole cents, the rest carried (assumed).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.instants import HOUR, SECOND, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing, payments
from relay_localcloud.money.ledger import ACCOUNTS, ATTEMPTS, RECHARGE_DEFAULTS, Attempts
from relay_localcloud.money.payments import Charge
from relay_wire.billing import AutoRecharge, AutoRechargeUpdate

RAN_OUT: Final = "The balance ran out: add funds, then restart it."
FUNDED_AGAIN: Final = "The balance ran out, and funds were added since: restart it."

FIRST_RETRY: Final = HOUR
"""The wait after a recharge that was not possible, or was declined (assumed); each further decline doubles it."""

_MOST_DOUBLINGS: Final = 20

AT_ONCE: Final = 100
"""Workloads that are stopped, or kept, in one transaction, which delays every request."""

Act = Callable[[Tx, str], bool]
"""Does something to an organization's workloads of one kind; returns True if there are more."""


def handlers(stops: Sequence[Act], funded: Sequence[Act]) -> Mapping[str, DueHandler]:
    """The handlers of all; `stops` stop what runs below the floor, `funded` correct the reasons of what was stopped."""
    return {
        billing.AUTO_STOP: _kind_after_kind(billing.AUTO_STOP, stops),
        billing.FUNDED: _kind_after_kind(billing.FUNDED, funded),
        billing.AUTO_RECHARGE: _recharge,
        billing.SETTLEMENT: _settle,
    }


def _kind_after_kind(due: str, acts: Sequence[Act]) -> DueHandler:
    """Does all of it at one instant of the clock."""

    def handle(tx: Tx, item: DueItem) -> None:
        if any(act(tx, item.subject) for act in acts):
            tx.schedule(tx.now, due, item.subject)

    return handle


def recharge_settings(tx: Tx, organization_id: str) -> AutoRecharge:
    """The auto-recharge settings; the defaults if they were never set."""
    row = ACCOUNTS.find(tx, organization_id=organization_id)
    if row is None:
        return RECHARGE_DEFAULTS
    return AutoRecharge(
        enabled=row.recharge_enabled,
        threshold_cents=row.recharge_threshold_cents,
        amount_cents=row.recharge_amount_cents,
    )


def set_recharge(tx: Tx, organization_id: str, settings: AutoRechargeUpdate) -> None:
    """Save new settings, which apply at once; ApiError 503 if payments are unconfigured, 400 over the cap."""
    payments.require_within_cap(billing.account(tx, organization_id), settings.amount_cents)
    payments.require_configured(tx)
    billing.open_account(tx, organization_id)
    ACCOUNTS.change(tx, organization_id, **{f"recharge_{name}": value for name, value in settings})
    tx.cancel(billing.AUTO_RECHARGE, organization_id)
    payments.retry_soon(tx, organization_id)
    billing.reset_alarms(tx, organization_id)


def _recharge(tx: Tx, item: DueItem) -> None:
    organization_id = item.subject
    card = payments.default_card(tx, organization_id)
    charged = None
    amount_cents = recharge_settings(tx, organization_id).amount_cents
    is_allowed = amount_cents <= billing.account(tx, organization_id).deposit_cap_cents
    if card is not None and is_allowed and payments.mode(tx) != "unconfigured":
        charged = payments.charge(tx, organization_id, "auto_recharge", amount_cents, card)
    attempts = ATTEMPTS.find(tx, organization_id=organization_id) or Attempts(organization_id)
    ATTEMPTS.put(tx, **asdict(_after(attempts, tx.now, charged)))
    billing.reset_alarms(tx, organization_id)


def _after(attempts: Attempts, at: int, charged: Charge | None) -> Attempts:
    """The attempts after one at an instant; `charged` is None if no charge was possible."""
    if charged is None:
        return replace(attempts, charge_id=None, not_before=at + FIRST_RETRY)
    if charged.status != "failed":
        return replace(attempts, charge_id=charged.id, not_before=at + payments.PAUSE)
    wait = FIRST_RETRY * 2 ** min(attempts.declined, _MOST_DOUBLINGS)
    return replace(attempts, charge_id=None, declined=attempts.declined + 1, not_before=at + wait)


def _settle(tx: Tx, item: DueItem) -> None:
    has = billing.account(tx, item.subject)
    ended = timestamp(has.meter.month_start - SECOND)[:7]
    cents = accrual.cents(has.meter.earlier_units)
    if cents:
        billing.settle(tx, has, cents, f"Usage of {ended}")
    if has.meter.burn or accrual.cents(has.meter.accrued_units) > cents:
        billing.expect_settlement(tx, item.subject, tx.now + 1)
