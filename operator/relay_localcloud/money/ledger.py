"""Stored facts about money: accounts with their meters, transactions, usage records, cards, recharge attempts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import Index, text

from relay_localcloud.kernel.instants import DAY, SECOND
from relay_localcloud.kernel.retention import Remembered
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.money.accrual import Meter
from relay_wire.billing import AutoRecharge

Kind = Literal["deposit", "usage", "credit", "refund"]

KEPT_UNIT: Final = SECOND
"""Units can exceed the integers of SQLite: whole 1/3600 cents are stored, and the remainder separately."""

RECHARGE_DEFAULTS: Final = AutoRecharge(enabled=False, threshold_cents=1000, amount_cents=5000)
USUAL_CARD: Final[Mapping[str, Any]] = {
    "brand": "visa",
    "last4": "4242",
    "exp_month": 12,
    "exp_year": 2099,
    "requires_action": False,
}
"""The valid card of a new organization."""


@dataclass(frozen=True, slots=True)
class AccountRow:
    """An organization's account; the fields from `read_at` to `burn`, and both rests, are its meter."""

    organization_id: str
    balance_cents: int
    read_at: int
    month_start: int
    month_units: int
    earlier_units: int
    burn: int
    funded_at: int | None  # when money or a lower floor last left it above the floor
    recharge_enabled: bool = False
    recharge_threshold_cents: int = RECHARGE_DEFAULTS.threshold_cents
    recharge_amount_cents: int = RECHARGE_DEFAULTS.amount_cents
    month_rest: int = 0
    earlier_rest: int = 0

    @property
    def meter(self) -> Meter:
        """The meter as it was last read."""
        month_units = self.month_units * KEPT_UNIT + self.month_rest
        earlier_units = self.earlier_units * KEPT_UNIT + self.earlier_rest
        return Meter(self.read_at, self.month_start, month_units, earlier_units, self.burn)


@dataclass(frozen=True, slots=True)
class Transaction:
    """A credit or a settlement."""

    sequence: int
    id: str
    organization_id: str
    type: Kind
    amount_cents: int  # signed
    created_at: int
    description: str


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """A stint: who pays for it, and its rate, which does not change."""

    sequence: int
    organization_id: str
    holder_id: str  # a pod, a VM or a replica
    resource_id: str  # the pod, the VM or the replica's cluster
    kind: str
    name: str
    gpu_model_id: str | None
    rate_cents: int  # of all of it, per hour
    started_at: int
    ended_at: int | None
    node_id: str | None  # where the holder's GPUs are, whose provider earns by it; None: without GPUs


@dataclass(frozen=True, slots=True)
class Card:
    """A saved card; `requires_action` makes each charge wait for its owner, as a bank may. The oldest is charged."""

    sequence: int
    id: str
    organization_id: str
    brand: str
    last4: str
    exp_month: int
    exp_year: int
    requires_action: bool


@dataclass(frozen=True, slots=True)
class Attempts:
    """The latest results of auto-recharge; an organization that never recharged has no row."""

    organization_id: str
    charge_id: str | None = None  # of the charge under way
    declined: int = 0  # in a row
    not_before: int = 0  # the earliest instant of the next one


ACCOUNTS: Final = Rows(AccountRow, "accounts", key=("organization_id",))
TRANSACTIONS: Final = Rows(
    Transaction, "transactions", Index("transactions_of_organization", "organization_id", "sequence")
)
USAGE: Final = Rows(
    UsageRecord,
    "usage_records",
    Index("open_usage_on_node", "node_id", sqlite_where=text("node_id IS NOT NULL AND ended_at IS NULL")),
    Index("open_usage_of_holder", "holder_id", unique=True, sqlite_where=text("ended_at IS NULL")),
    Index("usage_of_resource", "resource_id", "sequence"),
    Index("usage_of_organization", "organization_id", "ended_at"),
    Index("ended_usage", "ended_at", sqlite_where=text("ended_at IS NOT NULL")),
)
ENDED: Final = Remembered(USAGE.table, "ended_at", kept=400 * DAY, key="sequence")
"""Longer than the range of answers: 365 days, from the first of a month."""
CARDS: Final = Rows(Card, "payment_methods", Index("cards_of_organization", "organization_id", "sequence"))
ATTEMPTS: Final = Rows(Attempts, "recharge_attempts", key=("organization_id",))


def metered(meter: Meter) -> Mapping[str, int]:
    """A meter as the fields of an account's row."""
    month_units, month_rest = divmod(meter.month_units, KEPT_UNIT)
    earlier_units, earlier_rest = divmod(meter.earlier_units, KEPT_UNIT)
    read = {"read_at": meter.read_at, "month_start": meter.month_start, "burn": meter.burn}
    month = {"month_units": month_units, "month_rest": month_rest}
    return {**read, **month, "earlier_units": earlier_units, "earlier_rest": earlier_rest}


transactions: Final = TRANSACTIONS.table
usage_records: Final = USAGE.table
