"""What a table of states says beside a move: the state forbids it, or nothing happens."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Refusal:
    """A 409: the state does not allow it."""

    message: str
    code: str = "conflict"


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing happens; a caller's action succeeds."""


STAY: Final = Stay()
