"""Balance, usage, deposits, cards and auto-recharge (section 2, "Balance and billing"); integer cents unless noted."""

from typing import Annotated, Final

from pydantic import Field

from relay_wire.base import Lenient, LenientListOf, ListOf, NonEmpty, Page, Received, Sent, Whole

MOST_KEY_CHARACTERS: Final = 255
"""The longest idempotency key (assumed)."""


class Transaction(Received):
    """One settled movement of the ledger; its fields are assumed, since section 2 does not show them."""

    id: Lenient[str] = None
    type: Lenient[str] = None  # deposit, usage, credit, refund
    amount_cents: Lenient[Whole] = None  # signed
    created_at: Lenient[str] = None
    description: Lenient[str] = None


class Balance(Received):
    """The organization's balance; `available_cents` is what the deploy gate checks."""

    balance_cents: Whole
    available_cents: Whole  # balance less accrued usage; can be slightly negative
    accrued_usage_cents: Whole
    current_month_usage_cents: Whole
    min_deposit_cents: Lenient[Whole] = None
    monthly_spend_limit_cents: Lenient[Whole] = None  # None: unlimited
    transactions: ListOf[Transaction]


class BillingBreakdownItem(Received):
    """What one run of a resource cost this month; its fields are assumed, since section 2 does not show them."""

    resource_id: Lenient[str] = None
    kind: Lenient[str] = None
    name: Lenient[str] = None
    gpu_model_id: Lenient[str] = None
    hours: Lenient[float] = None
    cents: Lenient[Whole] = None


class CurrentUsage(Received):
    """Usage of the month to date; section 2 shows no type for its breakdown, so one that cannot be read is None."""

    usage_cents: Whole
    usage_hours: float  # workload hours
    breakdown: LenientListOf[BillingBreakdownItem]
    burn_per_hour_cents: Lenient[Whole] = None
    auto_stop_floor_cents: Lenient[Whole] = None  # below it, the cloud stops the organization
    projected_runway_hours: Lenient[float] = None  # None: nothing is being spent


class DailyUsage(Received):
    """Usage of one day; its fields are assumed, since section 2 does not show them."""

    date: str  # in UTC
    usage_cents: Whole
    usage_hours: float  # workload hours


DailyUsageList = Page[DailyUsage]


class DepositRequest(Sent):
    """A charge to the default saved card; repeating the key does not charge again."""

    amount_cents: int = Field(ge=1000, le=50000)
    idempotency_key: Annotated[NonEmpty, Field(max_length=MOST_KEY_CHARACTERS)] | None = None


class ChargeOutcome(Received):
    """The outcome of a charge; the balance is credited later. Section 4 shows only `status`; the rest is assumed."""

    charge_id: Lenient[str] = None
    status: str  # processing, succeeded, failed, requires_action
    amount_cents: Lenient[Whole] = None


class SetupIntent(Received):
    """What a browser needs to save a card; the names of its fields are assumed."""

    client_secret: str
    publishable_key: str


class PaymentMethod(Received):
    """A saved card (section 4); the names of its fields are assumed."""

    id: str
    brand: str
    last4: str
    exp_month: int
    exp_year: int


PaymentMethodList = Page[PaymentMethod]


class AutoRecharge(Received):
    """The auto-recharge settings in the cloud; defaults if never set."""

    enabled: bool
    threshold_cents: Whole
    amount_cents: Whole


class AutoRechargeUpdate(Sent):
    """The auto-recharge settings to save; a recharge fires when the available balance drops below the threshold."""

    enabled: bool
    threshold_cents: int
    amount_cents: int = Field(ge=1000, le=50000)
