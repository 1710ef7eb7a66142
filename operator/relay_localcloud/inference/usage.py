"""What is asked of the inference API, by organization and day; batches count as well, each record as a request."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import BigInteger, Column, String, Table, bindparam, select
from sqlalchemy.dialects.sqlite import insert

from relay_localcloud.kernel.instants import DAY, timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

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

_COUNTS: Final = ("requests", "input_tokens", "output_tokens", "cost_nano_usd")
_first = insert(inference_usage).values(
    organization_id=bindparam("organization"), day=bindparam("of_day"), **{name: bindparam(name) for name in _COUNTS}
)
_ADD = Prepared(
    _first.on_conflict_do_update(
        index_elements=[inference_usage.c.organization_id, inference_usage.c.day],
        set_={name: inference_usage.c[name] + _first.excluded[name] for name in _COUNTS},
    )
)


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests that were answered, the tokens that they took, and what those cost."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0

    def as_json(self) -> dict[str, int]:
        """As answers show it."""
        return {
            "requests": self.requests,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "costNanoUsd": self.cost_nano_usd,
        }


def record(tx: Tx, organization_id: str, used: Usage) -> None:
    """Add to the day of `tx.now`."""
    _ADD.run(tx.connection, organization=organization_id, of_day=_day(tx.now), **asdict(used))


def daily(tx: Tx, organization_id: str, days: int) -> list[tuple[str, Usage]]:
    """The last `days` days with their dates, the oldest first, today included."""
    today, usage = _day(tx.now), inference_usage.c
    since = today - (days - 1) * DAY
    query = select(usage.day, *(usage[name] for name in _COUNTS)).where(
        usage.organization_id == organization_id, usage.day >= since
    )
    known = {row[0]: Usage(*row[1:]) for row in tx.connection.execute(query)}
    return [(timestamp(day)[:10], known.get(day, Usage())) for day in range(max(since, 0), today + DAY, DAY)]


def sum_of(days: Iterable[Usage]) -> Usage:
    """The totals."""
    return Usage(*(sum(column) for column in zip(*(asdict(day).values() for day in days), strict=True)))


def _day(instant: int) -> int:
    return instant - instant % DAY
