"""What tokens cost: summed exactly in nano-USD, debited in whole cents, the rest carried to the next charge.

A debit is an immediate transaction, so tokens are never accrued usage: `availableCents` is `balanceCents` minus what
workloads accrued, as section 2 defines it. Requests are counted by organization and day, including those of batches,
each record as one request.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

from sqlalchemy import BigInteger, Column, String, Table, bindparam, select

from relay_localcloud.kernel.instants import DAY, timestamp
from relay_localcloud.kernel.prepared import Prepared, adding
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.models.built_in import NANO_USD_PER_TOKEN
from relay_localcloud.money import billing

NANO_USD_PER_CENT: Final = 10_000_000

inference_charges = Table(
    "inference_charges",
    metadata,
    Column("organization_id", String, primary_key=True),
    Column("charged_nano_usd", BigInteger, nullable=False),  # since the beginning
)

inference_usage = Table(
    "inference_usage",
    metadata,
    Column("organization_id", String, primary_key=True),
    Column("day", BigInteger, primary_key=True),  # its first instant, in UTC
    Column("requests", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_nano_usd", BigInteger, nullable=False),
)

_CHARGE = adding(inference_charges, "organization_id")
_CHARGED = Prepared(
    select(inference_charges.c.charged_nano_usd).where(inference_charges.c.organization_id == bindparam("organization"))
)
_USE = adding(inference_usage, "organization_id", "day")


@dataclass(frozen=True, slots=True)
class Usage:
    """Answered requests, their tokens, and the cost of these."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0

    @classmethod
    def of(cls, input_tokens: int, output_tokens: int) -> "Usage":
        """One online request that took these tokens."""
        return cls(1, input_tokens, output_tokens, (input_tokens + output_tokens) * NANO_USD_PER_TOKEN)

    @property
    def halved(self) -> "Usage":
        """The usage at the price of a batch (assumed)."""
        return replace(self, cost_nano_usd=self.cost_nano_usd // 2)

    def __add__(self, other: "Usage") -> "Usage":
        """The sum of both."""
        return Usage(*map(sum, zip(_counts(self), _counts(other), strict=True)))

    def as_json(self) -> dict[str, int]:
        """The usage as answers show it."""
        return dict(zip(("requests", "inputTokens", "outputTokens", "costNanoUsd"), _counts(self), strict=True))


NOTHING: Final = Usage()


def _counts(used: Usage) -> tuple[int, ...]:
    return used.requests, used.input_tokens, used.output_tokens, used.cost_nano_usd


def charge(tx: Tx, organization_id: str, used: Usage) -> None:
    """Charge an organization for tokens; debits complete cents."""
    if used.requests:
        _run(_USE, tx, {"organization_id": organization_id, "day": _day(tx.now), **asdict(used)})
    nano_usd = used.cost_nano_usd
    if nano_usd == 0:
        return
    charged = _run(_CHARGE, tx, {"organization_id": organization_id, "charged_nano_usd": nano_usd})
    cents = charged // NANO_USD_PER_CENT - (charged - nano_usd) // NANO_USD_PER_CENT
    if cents:
        billing.debit(tx, organization_id, cents, "Inference tokens")


def carried(tx: Tx, organization_id: str) -> int:
    """Nano-USD that were charged and not yet debited, less than a cent."""
    row = _CHARGED.run(tx.connection, organization=organization_id).fetchone()
    return 0 if row is None else int(row[0]) % NANO_USD_PER_CENT


def daily(tx: Tx, organization_id: str, days: int) -> list[tuple[str, Usage]]:
    """The last `days` days with their dates, the oldest first, including today."""
    today, usage = _day(tx.now), inference_usage.c
    since = today - (days - 1) * DAY
    query = select(usage.day, usage.requests, usage.input_tokens, usage.output_tokens, usage.cost_nano_usd).where(
        usage.organization_id == organization_id, usage.day >= since
    )
    known = {row[0]: Usage(*row[1:]) for row in tx.connection.execute(query)}
    return [(timestamp(day)[:10], known.get(day, NOTHING)) for day in range(max(since, 0), today + DAY, DAY)]


def _run(statement: Prepared, tx: Tx, values: Mapping[str, object]) -> int:
    row = statement.run(tx.connection, **{f"new_{name}": value for name, value in values.items()}).fetchone()
    return int(row[0])


def _day(instant: int) -> int:
    return instant - instant % DAY
