"""`kubectl relay plan`: what the operator would do, at what price, and what would be lost."""

from collections.abc import Sequence
from typing import Annotated, Final

import typer
from pydantic import JsonValue

from relay_cli import accounts, objects
from relay_cli.accounts import BaseUrl
from relay_cli.failures import Failure, Status
from relay_cli.kubectl import Kubectl, parsed
from relay_cli.objects import WORKLOADS, CloudObject
from relay_cli.options import OutputOption
from relay_cli.tables import Column, Output, as_json, dollars, table
from relay_cli.terminal import complain, say
from relay_operator.api.meta import GROUP, Model, ObjectKey
from relay_operator.api.plan import Plan, PlannedAction

Subject = Annotated[str, typer.Argument(metavar="KIND/NAME", help="An object that exists, as in gpod/trainer.")]
Files = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="What would be applied: a file, folder, URL or -."),
]


class Row(Model):
    """One object and its next step."""

    namespace: str
    kind: str
    name: str
    action: PlannedAction
    reason: str
    price_per_hour_cents_now: int | None
    price_per_hour_cents: int | None
    loses: list[str]


_COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("OBJECT", lambda row: "/".join(part for part in (row.kind, row.namespace, row.name) if part)),
    Column("ACTION", lambda row: row.action),
    Column("NOW", lambda row: dollars(row.price_per_hour_cents_now), is_number=True),
    Column("AFTER", lambda row: dollars(row.price_per_hour_cents), is_number=True),
    Column("WHY", lambda row: "; ".join((row.reason, *row.loses))),
)


async def plan(
    kubectl: Kubectl,
    subject: Subject = "",
    filename: Files = [],  # noqa: B006 - typer reads it, and nobody changes it
    base_url: BaseUrl = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what the operator would do next for objects, at what price per hour, and what would be lost."""
    if bool(subject) == bool(filename):
        raise Failure("name either one object, as in gpod/trainer, or files with -f", Status.MISUSED)
    asked = await kubectl.would_apply(filename) if filename else [await kubectl.get(objects.checked(subject))]
    ours = [raw for raw in asked if str(raw.get("apiVersion")).startswith(f"{GROUP}/")]
    rows = await _rows(kubectl, ours, base_url)
    if not rows:
        named = subject or ", ".join(filename)
        raise Failure(f"there is no plan for {named}: accounts, batches, schedules, and objects of others have none")
    say(as_json(rows) if output is Output.JSON else table(_COLUMNS, rows) + total(rows))


def total(rows: Sequence[Row]) -> str:
    """The total cost, in a sentence; what has no price, such as an SSH key, does not count."""
    priced = [row for row in rows if row.kind in WORKLOADS]
    now, after = ([row.price_per_hour_cents_now for row in priced], [row.price_per_hour_cents for row in priced])
    return f"\nnow {_sum(now)}, then {_sum(after)}\n"


def _sum(prices: Sequence[int | None]) -> str:
    unknown = prices.count(None)
    beside = f" and {unknown} without a price" if unknown else ""
    return f"{dollars(sum(price or 0 for price in prices))} an hour{beside}"


async def _rows(kubectl: Kubectl, asked: Sequence[dict[str, JsonValue]], base_url: str) -> list[Row]:
    # Takes half a second, which no other command needs.
    from relay_operator.preview import PreviewError, UrlUnknownError, preview  # noqa: PLC0415

    async with kubectl.proxy() as socket:
        try:
            found = await preview(socket, asked, base_url)
        except PreviewError as failed:
            raise Failure(str(failed)) from None
        except UrlUnknownError as unknown:
            raise accounts.url_unknown(unknown.account) from None
    if found.unlisted:
        complain(
            f"you may not list these in all namespaces, so budgets are checked without: {', '.join(found.unlisted)}"
        )
    read = [parsed(CloudObject, raw) for raw in asked]
    named = ((one, found.plans.get(ObjectKey(one.kind, one.metadata.namespace, one.metadata.name))) for one in read)
    return [_row(one, plan) for one, plan in named if plan is not None]


def _row(obj: CloudObject, plan: Plan) -> Row:
    return Row(
        namespace=obj.metadata.namespace,
        kind=obj.kind,
        name=obj.metadata.name,
        action=plan.action,
        reason=plan.reason,
        price_per_hour_cents_now=obj.price_per_hour_cents if obj.is_in_cloud else 0,
        price_per_hour_cents=plan.price_per_hour_cents,
        loses=plan.loses or [],
    )
