"""`kubectl relay cost`: what is spent per hour, this month and on each day, and by whom."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Final, TypeAlias, TypeVar

import typer

from relay_cli import accounts, objects
from relay_cli.accounts import BaseUrl, Organization
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl
from relay_cli.objects import CloudObject
from relay_cli.options import AllNamespaces, OutputOption
from relay_cli.spend import COLUMNS, spenders
from relay_cli.tables import Column, Output, as_json, dollars, table
from relay_cli.terminal import complain, say
from relay_client import Cloud, items_of
from relay_client.operations import GET_CURRENT_USAGE, LIST_DAILY_USAGE
from relay_operator.api.cloudaccount import AnyAccount
from relay_operator.api.meta import COST_CENTER, Model
from relay_operator.api.references import AccountKind
from relay_wire.billing import CurrentUsage, DailyUsage

Days = Annotated[
    int,
    typer.Option("--days", min=0, max=365, metavar="N", help="Show each organization's last N days instead."),
]
Spend = Annotated[bool, typer.Option("--spend", help="Show this month as the accounts report it, with what is gone.")]
ToldT = TypeVar("ToldT")
_Resource: TypeAlias = tuple[Organization, str]
"""Something in the cloud: an id is one of its cloud."""


class Share(Model):
    """The cost of one namespace and cost centre; without a namespace, of everything that no existing object owns."""

    namespace: str | None
    cost_center: str | None
    billed: int
    unpriced: int
    """How many of those have a price that is not known; `price_per_hour_cents` leaves them out."""
    price_per_hour_cents: int
    month_to_date_cents: int | None


class Day(Model):
    """What one organization used on one day, in UTC."""

    organization: str
    account: str
    """One of the accounts with a key to it."""
    date: str
    cents: int
    hours: float


_SHARES: Final[tuple[Column[Share], ...]] = (
    Column("NAMESPACE", lambda row: row.namespace or "(no object)"),
    Column("COST CENTER", lambda row: row.cost_center or ""),
    Column("BILLED", lambda row: str(row.billed), is_number=True),
    Column("PER HOUR", lambda row: dollars(row.price_per_hour_cents), is_number=True),
    Column("THIS MONTH", lambda row: dollars(row.month_to_date_cents), is_number=True),
)
_DAYS: Final[tuple[Column[Day], ...]] = (
    Column("ORGANIZATION", lambda row: row.organization),
    Column("ACCOUNT", lambda row: row.account),
    Column("DAY (UTC)", lambda row: row.date),
    Column("WORKLOAD HOURS", lambda row: f"{row.hours:.1f}", is_number=True),
    Column("COST", lambda row: dollars(row.cents), is_number=True),
)


async def cost(
    kubectl: Kubectl,
    all_namespaces: AllNamespaces = False,
    days: Days = 0,
    spend: Spend = False,
    base_url: BaseUrl = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the cost per hour and this month, by namespace and by the label gpurelay.dev/cost-center."""
    if spend:
        if days:
            raise Failure("--days and --spend exclude each other: give one of them", Status.MISUSED)
        attributed = spenders(await accounts.listed(kubectl, everywhere=all_namespaces))
        say(as_json(attributed) if output is Output.JSON else table(COLUMNS, attributed))
        return
    found = await objects.workloads(kubectl, everywhere=all_namespaces)
    paying = await _paying(kubectl, found, everywhere=all_namespaces)
    if days:
        series = await _told(
            kubectl, paying, base_url, lambda cloud: items_of(cloud, LIST_DAILY_USAGE, query={"days": days})
        )
        if paying and not series:
            raise Failure("the daily usage of none of the organizations could be read: see the sentences above")
        by_day = days_of(series, paying)
        say(as_json(by_day) if output is Output.JSON else table(_DAYS, by_day))
        return
    used = await _told(kubectl, paying, base_url, lambda cloud: cloud.call(GET_CURRENT_USAGE, large=True))
    rows = shares(found, used)
    if all_namespaces:
        rows += of_no_object(found, used)
    say(as_json(rows) if output is Output.JSON else table(_SHARES, rows) + left_out(rows))


def left_out(rows: Iterable[Share]) -> str:
    """What the prices per hour leave out, in a sentence; empty if they are complete. Pure."""
    unknown = sum(row.unpriced for row in rows)
    return f"\nPER HOUR leaves out {unknown} billed whose price is not known\n" if unknown else ""


def shares(found: Iterable[CloudObject], used: Mapping[Organization, CurrentUsage]) -> list[Share]:
    """Shares by namespace and cost centre; the month is unknown if an organization's usage is. Pure."""
    spent = _spent(used)
    known = {organization for organization, usage in used.items() if usage.breakdown is not None}
    ordered = sorted(found, key=_payer)
    return [_share(payer, list(group), spent, known) for payer, group in groupby(ordered, key=_payer)]


def of_no_object(found: Iterable[CloudObject], used: Mapping[Organization, CurrentUsage]) -> list[Share]:
    """What the organizations spent beyond existing objects: on deleted ones, and on what no object created.

    The month is unknown if a breakdown is: those of existing objects cannot be told apart. Pure.
    """
    spent, owned = _spent(used), {one for workload in found for one in _resources(workload)}
    rest = sum(usage.usage_cents for usage in used.values()) - sum(spent[one] for one in spent.keys() & owned)
    month = None if any(usage.breakdown is None for usage in used.values()) else rest
    row = Share(
        namespace=None, cost_center=None, billed=0, unpriced=0, price_per_hour_cents=0, month_to_date_cents=month
    )
    return [row] if rest else []


def days_of(
    series: Mapping[Organization, Sequence[DailyUsage]], paying: Mapping[Organization, Sequence[AnyAccount]]
) -> list[Day]:
    """Each organization's days, the oldest first. Pure."""
    return [
        Day(
            organization=organization.id,
            account=str(paying[organization][0].key),
            date=day.date,
            cents=day.usage_cents,
            hours=day.usage_hours,
        )
        for organization in sorted(series, key=lambda one: (one.id, one.endpoint))
        for day in series[organization]
    ]


def _payer(workload: CloudObject) -> tuple[str, str]:
    return workload.metadata.namespace, workload.metadata.labels.get(COST_CENTER, "")


def _spent(used: Mapping[Organization, CurrentUsage]) -> dict[_Resource, int]:
    """Cents of the month by resource, which may have several rows."""
    spent: Counter[_Resource] = Counter()
    for organization, usage in used.items():
        for item in usage.breakdown or ():
            if item.resource_id:
                spent[organization, item.resource_id] += item.cents or 0
    return spent


def _organization(workload: CloudObject) -> Organization | None:
    """The organization that pays for it; None if it was never in the cloud."""
    identity = workload.status.identity
    return Organization(identity.endpoint, identity.organization) if identity else None


def _resources(workload: CloudObject) -> list[_Resource]:
    organization = _organization(workload)
    return [(organization, cloud_id) for cloud_id in workload.cloud_ids] if organization else []


def _share(
    payer: tuple[str, str],
    group: Sequence[CloudObject],
    spent: Mapping[_Resource, int],
    known: Iterable[Organization],
) -> Share:
    namespace, cost_center = payer
    billed = [workload for workload in group if workload.is_billed]
    organizations = {organization for workload in group if (organization := _organization(workload))}
    month = sum(spent.get(resource, 0) for workload in group for resource in _resources(workload))
    prices = [workload.price_per_hour_cents for workload in billed]
    return Share(
        namespace=namespace,
        cost_center=cost_center or None,
        billed=len(billed),
        unpriced=prices.count(None),
        price_per_hour_cents=sum(price or 0 for price in prices),
        month_to_date_cents=month if organizations <= set(known) else None,
    )


async def _paying(
    kubectl: Kubectl, found: Sequence[CloudObject], *, everywhere: bool
) -> dict[Organization, list[AnyAccount]]:
    """The accounts whose keys may be used, by organization; stderr says which accounts cannot be read."""
    read = await accounts.listed(kubectl, everywhere=everywhere)
    named = {workload.account for workload in found if workload.account is not None and not everywhere}
    for ref in sorted(
        (ref for ref in named if ref.kind is AccountKind.CLUSTER_CLOUD_ACCOUNT), key=lambda ref: ref.name
    ):
        try:
            read.append(await accounts.named(kubectl, ref))
        except Failure as failed:
            complain(f"the cost of {ref.kind}/{ref.name} is unknown: {failed}")
    return accounts.organizations(read)


async def _told(
    kubectl: Kubectl,
    paying: Mapping[Organization, Sequence[AnyAccount]],
    base_url: str,
    ask: Callable[[Cloud], Awaitable[ToldT]],
) -> dict[Organization, ToldT]:
    """The answer for each organization; stderr says why one is missing: its keys are unreadable or refused."""
    told: dict[Organization, ToldT] = {}
    for organization, opened_by in paying.items():
        try:
            told[organization] = await _answer(kubectl, opened_by, base_url, ask)
        except Failure as failed:
            complain(f"the cost of {organization.id}, of {opened_by[0].key}, is unknown: {failed}")
    return told


async def _answer(
    kubectl: Kubectl, opened_by: Sequence[AnyAccount], base_url: str, ask: Callable[[Cloud], Awaitable[ToldT]]
) -> ToldT:
    """The answer with the first key that works. Raises Failure."""
    failure = Failure("no account has a key to it")
    for account in opened_by:
        try:
            async with accounts.cloud_of(kubectl, account, base_url) as cloud:
                return await ask(cloud)
        except Failure as failed:
            failure = failed
    raise failure
