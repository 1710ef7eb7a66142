"""The month's spending in the accounts' status, as the operator attributed it. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from relay_cli.tables import Column, dollars
from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.cloudaccount_status import Spent
from relay_operator.api.meta import Model, Time


class Spender(Model):
    """The spending of one namespace, or one cost centre, with an account's organization."""

    account: str
    by: Literal["namespace", "costCenter"]
    name: str
    month_to_date_cents: int
    observed_time: Time


COLUMNS: Final[tuple[Column[Spender], ...]] = (
    Column("ACCOUNT", lambda row: row.account),
    Column("NAMESPACE", lambda row: row.name if row.by == "namespace" else ""),
    Column("COST CENTER", lambda row: row.name if row.by == "costCenter" else ""),
    Column("THIS MONTH", lambda row: dollars(row.month_to_date_cents), is_number=True),
)


def spenders(accounts: Iterable[AnyAccount]) -> list[Spender]:
    """The namespaces, then the cost centres, of each account, the highest spending first."""
    return [row for account in sorted(accounts, key=lambda one: one.key) for row in _of(account)]


def _of(account: AnyAccount) -> Iterator[Spender]:
    spend = account.status.spend
    if spend is None:
        return
    lists: tuple[tuple[Literal["namespace", "costCenter"], list[Spent]], ...] = (
        ("namespace", spend.by_namespace),
        ("costCenter", spend.by_cost_center),
    )
    for by, told in lists:
        for one in sorted(told, key=lambda one: (-one.cents, one.name)):
            yield Spender(
                account=str(account.key),
                by=by,
                name=one.name,
                month_to_date_cents=one.cents,
                observed_time=spend.observed_time,
            )
