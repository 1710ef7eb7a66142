"""The monthly settlement: on the 1st at 00:10 UTC, one debit of whole cents, the rest carried (assumed)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from relay_localcloud.kernel.due import DueHandler, DueItem
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import accrual, billing


def _settle(tx: Tx, item: DueItem) -> None:
    has = billing.account(tx, item.subject)
    ended = datetime.fromtimestamp(has.meter.month_start - 1, UTC)
    cents = accrual.cents(has.meter.earlier_units)
    if cents:
        billing.settle(tx, has, cents, f"Usage of {ended:%Y-%m}")
    if has.meter.burn or accrual.cents(has.meter.accrued_units) > cents:
        billing.expect_settlement(tx, item.subject, tx.now + 1)


HANDLERS: Final[Mapping[str, DueHandler]] = {billing.SETTLEMENT: _settle}
