"""`kubectl relay top`: what runs, where, at what price per hour, since when."""

from collections.abc import Mapping, Sequence
from typing import Final

from relay_cli import objects
from relay_cli.kubectl import Kubectl
from relay_cli.objects import CloudObject
from relay_cli.options import AllNamespaces, OutputOption
from relay_cli.tables import Column, Output, as_json, dollars, table
from relay_cli.terminal import say
from relay_operator.api.meta import Model, Time
from relay_operator.api.references import AccountKind


class Row(Model):
    """One workload in the cloud."""

    namespace: str
    kind: str
    name: str
    account: str
    account_kind: AccountKind
    organization: str | None
    state: str
    gpus: int | None
    gpu_model_id: str | None
    price_per_hour_cents: int | None
    billed: bool
    since: Time | None


_SHARED: Final[Mapping[AccountKind, str]] = {
    AccountKind.CLOUD_ACCOUNT: "",
    AccountKind.CLUSTER_CLOUD_ACCOUNT: "ccacct/",
}
"""What distinguishes a shared account from one of the namespace, as `accounts.called` takes it."""
_COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("NAMESPACE", lambda row: row.namespace),
    Column("KIND", lambda row: row.kind),
    Column("NAME", lambda row: row.name),
    Column("ACCOUNT", lambda row: f"{_SHARED[row.account_kind]}{row.account}"),
    Column("STATE", lambda row: row.state),
    Column("GPUS", lambda row: f"{row.gpus or ''} {row.gpu_model_id or ''}".strip()),
    Column("PER HOUR", lambda row: dollars(row.price_per_hour_cents), is_number=True),
    Column("SINCE (UTC)", lambda row: f"{row.since:%m-%d %H:%M}" if row.since else ""),
)


async def top(kubectl: Kubectl, all_namespaces: AllNamespaces = False, output: OutputOption = Output.TABLE) -> None:
    """Show what runs, its account, its price per hour, and since when it runs."""
    rows = running(await objects.workloads(kubectl, everywhere=all_namespaces))
    say(as_json(rows) if output is Output.JSON else shown(rows, everywhere=all_namespaces))


def running(found: Sequence[CloudObject]) -> list[Row]:
    """Workloads that use machines of the cloud, or are about to."""
    return [_row(workload) for workload in found if workload.is_in_cloud]


def shown(rows: Sequence[Row], *, everywhere: bool) -> str:
    """The table, and below it the total cost."""
    if not rows:
        return f"Nothing runs in {'any namespace' if everywhere else 'this namespace'}.\n"
    return table(_COLUMNS[0 if everywhere else 1 :], rows) + total(rows)


def total(rows: Sequence[Row]) -> str:
    """What is billed, in a sentence."""
    billed = [row for row in rows if row.billed]
    priced = [row.price_per_hour_cents for row in billed if row.price_per_hour_cents is not None]
    unknown = len(billed) - len(priced)
    beside = f", and {unknown} whose price is not known" if unknown else ""
    return f"\n{len(billed)} of {len(rows)} billed: {dollars(sum(priced))} an hour{beside}\n"


def _row(workload: CloudObject) -> Row:
    status, account = workload.status, workload.account or objects.DEFAULT
    each, replicas = status.gpu_count if status.id else 0, 1 if status.replicas is None else status.replicas
    return Row(
        namespace=workload.metadata.namespace,
        kind=workload.kind,
        name=workload.metadata.name,
        account=account.name,
        account_kind=account.kind,
        organization=status.identity.organization if status.identity else None,
        state=status.state or "",
        gpus=None if each is None else each * replicas + sum(blue.gpus or 0 for blue in workload.aside),
        gpu_model_id=status.gpu_model_id,
        price_per_hour_cents=workload.price_per_hour_cents,
        billed=workload.is_billed,
        since=status.running_since or status.state_since,
    )
