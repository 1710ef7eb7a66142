"""Tables of states as a person reads them: a row for each trigger, a column for each state.

A cell is the state that it leads to, `-` where nothing happens, `409` where it is refused, or the code of the refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from relay_localcloud.http.outcomes import Refusal, Stay

if TYPE_CHECKING:
    from enum import StrEnum


class Move(Protocol):
    """A move of any table."""

    @property
    def to(self) -> StrEnum | None: ...


def cells(table: str) -> list[tuple[str, str, str]]:
    """(state, trigger, cell) of every cell."""
    head, *rows = (line.split() for line in table.strip().splitlines())
    return [(state, trigger, cell) for trigger, *row in rows for state, cell in zip(head, row, strict=True)]


def cell_of(outcome: Move | Refusal | Stay | None) -> str:
    """The cell that an outcome of the program is; `=` for a move that leaves the state to others."""
    match outcome:
        case None | Stay():
            return "-"
        case Refusal(_, code):
            return "409" if code == "conflict" else code
    return "=" if outcome.to is None else outcome.to.value
