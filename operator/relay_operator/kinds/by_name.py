"""Finds the resource with a name in a list. Pure."""

from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from relay_operator.flows.managed.resource import CannotTell, Found, NotSeen


class Row(Protocol):
    """A row of a list; the cloud may leave out its name."""

    @property
    def name(self) -> str | None: ...


RowT = TypeVar("RowT", bound=Row)


def by_name(
    rows: Iterable[RowT], name: str, lives: Callable[[RowT], bool], *, complete: bool = True
) -> Found[RowT] | NotSeen | CannotTell:
    """The row with the name; cannot tell if it may be in what the list lacks, or be a living row without a name."""
    unsure = not complete
    for row in rows:
        if row.name == name:
            return Found(row)
        unsure = unsure or (not row.name and lives(row))
    return CannotTell() if unsure else NotSeen()
