"""Rows as a table for people or as JSON for programs. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO
from typing import Generic, TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from relay_cli.terminal import harmless

WIDTH = 80
RowT = TypeVar("RowT", bound=BaseModel)


class Output(StrEnum):
    """The form of the output."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One column of a table; a long cell continues on the next line."""

    name: str
    cell: Callable[[RowT], str]
    is_number: bool = False


def table(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """The rows as lines of at most 80 characters."""
    drawn = Table(box=None, pad_edge=False, header_style="")
    for column in columns:
        drawn.add_column(column.name, justify="right" if column.is_number else "left", overflow="fold")
    for row in rows:
        # Characters that are replaced only later would be wider then: a row could go on below, in the place of another.
        drawn.add_row(*(harmless(column.cell(row)) or "-" for column in columns))
    text = StringIO()
    # Names of objects are text, not markup; without colours, since the output may go into a file.
    Console(file=text, width=WIDTH, color_system=None, markup=False, highlight=False, emoji=False).print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def as_json(rows: Sequence[BaseModel]) -> str:
    """The rows for programs: fields named as in the API, absent ones null."""
    return json.dumps({"items": [row.model_dump(mode="json") for row in rows]}, indent=2) + "\n"


def dollars(cents: int | None) -> str:
    """An amount of cents as `$1.50`; empty if unknown."""
    return "" if cents is None else f"{'-' if cents < 0 else ''}${abs(cents) // 100}.{abs(cents) % 100:02}"
