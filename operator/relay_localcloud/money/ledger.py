"""The tables of money: accounts with their meters, transactions, usage records and cards."""

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Table, Text, text

from relay_localcloud.kernel.schema import metadata
from relay_wire.billing import AutoRecharge

RECHARGE_DEFAULTS: Final = AutoRecharge(enabled=False, threshold_cents=1000, amount_cents=5000)

accounts = Table(
    "accounts",
    metadata,
    Column("organization_id", String, primary_key=True),
    Column("balance_cents", BigInteger, nullable=False),
    Column("read_at", BigInteger, nullable=False),  # whole seconds, as month_start; see accrual.Meter
    Column("month_start", BigInteger, nullable=False),
    Column("month_units", BigInteger, nullable=False),
    Column("earlier_units", BigInteger, nullable=False),
    Column("burn", BigInteger, nullable=False),
    Column("funded_at", BigInteger),  # when money last came in that lifted it over the floor
    Column("recharge_enabled", Boolean, nullable=False, default=False),
    Column("recharge_threshold_cents", BigInteger, nullable=False, default=RECHARGE_DEFAULTS.threshold_cents),
    Column("recharge_amount_cents", BigInteger, nullable=False, default=RECHARGE_DEFAULTS.amount_cents),
)

transactions = Table(
    "transactions",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("type", String, nullable=False),  # deposit, usage, credit, refund
    Column("amount_cents", BigInteger, nullable=False),  # signed
    Column("created_at", BigInteger, nullable=False),
    Column("description", Text, nullable=False),
    Index("transactions_of_organization", "organization_id", "sequence"),
)

usage_records = Table(
    "usage_records",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("organization_id", String, nullable=False),
    Column("holder_id", String, nullable=False),  # a pod, a VM or a replica
    Column("resource_id", String, nullable=False),  # the pod, the VM or the replica's cluster
    Column("kind", String, nullable=False),
    Column("name", String, nullable=False),
    Column("gpu_model_id", String),
    Column("rate_cents", BigInteger, nullable=False),  # an hour, locked
    Column("started_at", BigInteger, nullable=False),  # whole seconds, as ended_at
    Column("ended_at", BigInteger),
    Column("node_id", String),  # where the holder's GPUs are; null: it has none
    Index("usage_on_node", "node_id", sqlite_where=text("node_id IS NOT NULL")),
    Index("open_usage_of_holder", "holder_id", unique=True, sqlite_where=text("ended_at IS NULL")),
    Index("usage_of_organization", "organization_id", "ended_at"),
)

payment_methods = Table(
    "payment_methods",
    metadata,
    Column("sequence", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("organization_id", String, nullable=False),
    Column("brand", String, nullable=False),
    Column("last4", String, nullable=False),
    Column("exp_month", Integer, nullable=False),
    Column("exp_year", Integer, nullable=False),
    Column("requires_action", Boolean, nullable=False),  # its charges wait for a confirmation by their owner
    Index("cards_of_organization", "organization_id", "sequence"),
)

recharge_attempts = Table(
    "recharge_attempts",
    metadata,
    Column("organization_id", String, primary_key=True),
    Column("charge_id", String),  # under way; null: none is
    Column("declined", Integer, nullable=False),  # in a row
    Column("not_before", BigInteger, nullable=False),
)
"""How auto-recharge went last; an organization that never recharged has no row."""
