"""What tokens cost: summed exactly in nano-USD, debited in whole cents, the rest carried to the next charge.

A debit is a transaction of its own at once, so tokens are never accrued usage: `availableCents` is `balanceCents` less
what workloads accrued, as section 2 has it.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, String, Table, bindparam
from sqlalchemy.dialects.sqlite import insert

from relay_localcloud.inference import usage
from relay_localcloud.inference.errors import INSUFFICIENT_BALANCE, InferenceError
from relay_localcloud.inference.usage import Usage
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money import billing

NANO_USD_PER_CENT: Final = 10_000_000

inference_charges = Table(
    "inference_charges",
    metadata,
    Column("organization_id", String, primary_key=True),
    Column("charged_nano_usd", BigInteger, nullable=False),  # ever
)

_opened = insert(inference_charges).values(
    organization_id=bindparam("organization"), charged_nano_usd=bindparam("nano_usd")
)
_CHARGE = Prepared(
    _opened.on_conflict_do_update(
        index_elements=[inference_charges.c.organization_id],
        set_={"charged_nano_usd": inference_charges.c.charged_nano_usd + _opened.excluded.charged_nano_usd},
    ).returning(inference_charges.c.charged_nano_usd)
)


def charge(tx: Tx, organization_id: str, used: Usage) -> None:
    """Charge an organization for tokens; debits the whole cents that are full."""
    if used.requests:
        usage.record(tx, organization_id, used)
    nano_usd = used.cost_nano_usd
    if nano_usd == 0:
        return
    charged = int(_CHARGE.run(tx.connection, organization=organization_id, nano_usd=nano_usd).fetchone()[0])
    cents = charged // NANO_USD_PER_CENT - (charged - nano_usd) // NANO_USD_PER_CENT
    if cents:
        billing.debit(tx, organization_id, cents, "Inference tokens")


def require_funds(tx: Tx, organization_id: str) -> None:
    """Refuse with 402 what costs money while the available balance is below the spending floor (section 7)."""
    has = billing.account(tx, organization_id)
    override = tx.settings.inference_floor_cents
    floor_cents = has.floor_cents if override is None else override
    if has.available_cents < floor_cents:
        raise InferenceError(
            *INSUFFICIENT_BALANCE,
            f"The available balance of {has.available_cents} cents is below the spending floor of {floor_cents}: "
            "add funds, then try again.",
        )
