"""What a table of states says beside a move: the state forbids it, or nothing happens."""

from dataclasses import dataclass
from typing import Final, TypeVar

from relay_localcloud.http.errors import ApiError

_MoveT = TypeVar("_MoveT")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A 409: the state does not allow it."""

    message: str
    code: str = "conflict"


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing happens; a caller's action succeeds."""


STAY: Final = Stay()


def decided(outcome: _MoveT | Refusal | Stay) -> _MoveT | None:
    """The move that a table has, None where nothing happens; ApiError 409 where it is refused."""
    match outcome:
        case Refusal(message, code):
            raise ApiError(409, message, code)
        case Stay():
            return None
    return outcome
