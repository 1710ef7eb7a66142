"""Auto-recharge: its settings, and what it does when the available balance drops below the threshold (section 2)."""

from collections.abc import Mapping
from typing import Final

from sqlalchemy import select, update

from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing, payments, recharge_attempts
from relay_localcloud.money.ledger import RECHARGE_DEFAULTS, accounts
from relay_wire.billing import AutoRecharge, AutoRechargeUpdate


def settings_of(tx: Tx, organization_id: str) -> AutoRecharge:
    """The auto-recharge settings; the defaults where they were never set."""
    a = accounts.c
    query = select(a.recharge_enabled, a.recharge_threshold_cents, a.recharge_amount_cents)
    row = tx.connection.execute(query.where(a.organization_id == organization_id)).first()
    if row is None:
        return RECHARGE_DEFAULTS
    return AutoRecharge(enabled=row[0], threshold_cents=row[1], amount_cents=row[2])


def save_settings(tx: Tx, organization_id: str, settings: AutoRechargeUpdate) -> None:
    """Keep other settings, which hold at once; ApiError 503 where payments are unconfigured."""
    payments.require_configured(tx)
    billing.open_account(tx, organization_id)
    tx.connection.execute(
        update(accounts)
        .where(accounts.c.organization_id == organization_id)
        .values(
            recharge_enabled=settings.enabled,
            recharge_threshold_cents=settings.threshold_cents,
            recharge_amount_cents=settings.amount_cents,
        )
    )
    tx.cancel(billing.AUTO_RECHARGE, organization_id)
    recharge_attempts.retry_soon(tx, organization_id)
    billing.reset_alarms(tx, organization_id)


def _recharge(tx: Tx, item: DueItem) -> None:
    organization_id = item.subject
    card = payments.default_card(tx, organization_id)
    charged = None
    if card is not None and payments.mode(tx) != "unconfigured":
        amount_cents = settings_of(tx, organization_id).amount_cents
        charged = payments.charge(tx, organization_id, "auto_recharge", amount_cents, card)
    under_way = None if charged is None or charged.status == "failed" else charged.id
    attempts = recharge_attempts.of(tx, organization_id)
    recharge_attempts.keep(tx, organization_id, recharge_attempts.after(attempts, tx.now, under_way))
    billing.reset_alarms(tx, organization_id)


HANDLERS: Final[Mapping[str, DueHandler]] = {billing.AUTO_RECHARGE: _recharge}
