"""Rows as people and as programs read them. Pure."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import StringIO
from typing import Generic, TypeVar

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

WIDTH = 80
RowT = TypeVar("RowT", bound=BaseModel)


class Output(StrEnum):
    """For whom rows are written."""

    TABLE = "table"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column(Generic[RowT]):
    """One column of a table; what does not fit goes on in the next line."""

    name: str
    cell: Callable[[RowT], str]
    is_number: bool = False


def table(columns: Sequence[Column[RowT]], rows: Sequence[RowT]) -> str:
    """Lines of at most 80 characters."""
    drawn = Table(box=None, pad_edge=False, header_style="")
    for column in columns:
        drawn.add_column(column.name, justify="right" if column.is_number else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(column.cell(row) or "-" for column in columns))
    text = StringIO()
    # What objects are called is text, not markup; nothing is coloured, since it may go into a file.
    Console(file=text, width=WIDTH, color_system=None, markup=False, highlight=False, emoji=False).print(drawn)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def as_json(rows: Sequence[BaseModel]) -> str:
    """The same for programs: fields as the API names them, absent ones null."""
    return json.dumps({"items": [row.model_dump(mode="json") for row in rows]}, indent=2) + "\n"


def dollars(cents: int | None) -> str:
    """Money as the cloud's prices are told; empty if it is not known."""
    return "" if cents is None else f"{'-' if cents < 0 else ''}${abs(cents) // 100}.{abs(cents) % 100:02}"
