"""`kubectl relay models`: what the cloud sells, how much of it is free, and what it costs."""

from collections.abc import Sequence
from typing import Final

from pydantic import Field, JsonValue

from relay_cli.kubectl import Kubectl, parsed
from relay_cli.options import OutputOption
from relay_cli.tables import Column, Output, as_json, dollars, table
from relay_cli.terminal import say
from relay_operator.api.conditions import ConditionType
from relay_operator.api.gpumodel import CATALOG, GpuModelSpec, GpuModelStatus
from relay_operator.api.meta import GROUP, Model, Resource

_NONE = (
    "There are no GpuModels. The operator makes them once an account is Ready: see `kubectl get cacct -A`, and its "
    "setting RELAY_CATALOG_ACCOUNT.\n"
)


class GpuModel(Resource[GpuModelSpec, GpuModelStatus]):
    """One object, created by the operator."""

    spec: GpuModelSpec = Field(default_factory=GpuModelSpec)
    status: GpuModelStatus = Field(default_factory=GpuModelStatus)


class Row(Model):
    """One GPU model; `stale` says since when, and why, its figures are out of date; None if they are current."""

    id: str
    name: str | None
    memory_gb: int | None
    free_gpus: int | None
    max_placeable_gpus: int | None
    spot_free_gpus: int | None
    price_per_hour_cents: int | None
    stale: str | None


_COLUMNS: Final[tuple[Column[Row], ...]] = (
    Column("MODEL", lambda row: row.id),
    Column("NAME", lambda row: row.name or ""),
    Column("GB", lambda row: _number(row.memory_gb), is_number=True),
    Column("FREE", lambda row: _number(row.free_gpus), is_number=True),
    Column("LARGEST", lambda row: _number(row.max_placeable_gpus), is_number=True),
    Column("SPOT", lambda row: _number(row.spot_free_gpus), is_number=True),
    Column("GPU HOUR", lambda row: dollars(row.price_per_hour_cents), is_number=True),
)


async def models(kubectl: Kubectl, output: OutputOption = Output.TABLE) -> None:
    """Show the cloud's GPU models: free GPUs, the most that one workload can have, the price of one."""
    rows = for_sale(await kubectl.list([f"gpumodels.{GROUP}"]))
    say(as_json(rows) if output is Output.JSON else shown(rows))


def for_sale(found: Sequence[JsonValue]) -> list[Row]:
    """The models among the operator's GpuModels, the cheapest first. Raises Failure."""
    read = (parsed(GpuModel, raw) for raw in found)
    rows = [_row(one.metadata.name, one.status) for one in read if one.metadata.name != CATALOG]
    return sorted(rows, key=lambda row: (row.price_per_hour_cents is None, row.price_per_hour_cents, row.id))


def shown(rows: Sequence[Row]) -> str:
    """The table, and below it why its figures are out of date, if so."""
    if not rows:
        return _NONE
    stale = next((f"\nThese figures are old: {row.stale}\n" for row in rows if row.stale), "")
    return table(_COLUMNS, rows) + stale


def _row(name: str, status: GpuModelStatus) -> Row:
    stalled = (one.message for one in status.conditions if one.type == ConditionType.STALLED and one.status == "True")
    return Row(
        id=name,
        name=status.name,
        memory_gb=status.memory_gb,
        free_gpus=status.free_gpus,
        max_placeable_gpus=status.max_placeable_gpus,
        spot_free_gpus=status.spot_free_gpus,
        price_per_hour_cents=status.price_per_hour_cents,
        stale=next(stalled, None),
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
