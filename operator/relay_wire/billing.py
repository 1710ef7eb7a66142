"""Balance, usage and auto-recharge (section 2, "Balance and billing"); integer cents unless noted."""

from pydantic import Field

from relay_wire.base import Lenient, ListOf, Received, Sent


class Transaction(Received):
    """One settled movement of the ledger; its fields are assumed, since section 2 does not show them."""

    id: Lenient[str] = None
    type: Lenient[str] = None  # deposit, usage, credit, refund
    amount_cents: Lenient[int] = None  # signed
    created_at: Lenient[str] = None
    description: Lenient[str] = None


class Balance(Received):
    """The organization's balance; `available_cents` is what the deploy gate checks."""

    balance_cents: int
    available_cents: int  # balance less accrued usage; can be slightly negative
    accrued_usage_cents: int
    current_month_usage_cents: int
    min_deposit_cents: Lenient[int] = None
    monthly_spend_limit_cents: Lenient[int] = None  # None: no limit
    transactions: ListOf[Transaction]


class BillingBreakdownItem(Received):
    """What one resource cost this month; its fields are assumed, since section 2 does not show them."""

    resource_id: Lenient[str] = None
    kind: Lenient[str] = None
    name: Lenient[str] = None
    gpu_model_id: Lenient[str] = None
    hours: Lenient[float] = None
    cents: Lenient[int] = None


class CurrentUsage(Received):
    """Usage of the month to date."""

    usage_cents: int
    usage_hours: float  # workload hours
    breakdown: ListOf[BillingBreakdownItem]
    burn_per_hour_cents: Lenient[int] = None
    auto_stop_floor_cents: Lenient[int] = None  # below it the organization is stopped
    projected_runway_hours: Lenient[float] = None  # None: nothing burns


class AutoRecharge(Received):
    """The auto-recharge settings as the cloud has them; defaults when never set."""

    enabled: bool
    threshold_cents: int
    amount_cents: int


class AutoRechargeUpdate(Sent):
    """The auto-recharge settings to save; a recharge fires when the available balance drops below the threshold."""

    enabled: bool
    threshold_cents: int
    amount_cents: int = Field(ge=1000, le=50000)
