"""Tables of states: what a trigger does in a state: a move, nothing, or a refusal because of the state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from relay_localcloud.http.errors import ApiError

_StateT = TypeVar("_StateT")
_TriggerT = TypeVar("_TriggerT")
_EffectT = TypeVar("_EffectT")
_MoveT = TypeVar("_MoveT")


@dataclass(frozen=True)
class Move(Generic[_StateT, _EffectT]):
    """A move to another state, or to the same one again; its effects happen in order."""

    to: _StateT
    effects: tuple[_EffectT, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A 409: the state does not allow the trigger."""

    message: str
    code: str = "conflict"


@dataclass(frozen=True, slots=True)
class Stay:
    """Nothing happens; a caller's action succeeds."""


STAY: Final = Stay()


def every_pair(
    rows: Mapping[_StateT, Mapping[_TriggerT, _MoveT | Refusal | Stay]], triggers: Iterable[_TriggerT]
) -> Mapping[tuple[_StateT, _TriggerT], _MoveT | Refusal | Stay]:
    """The complete table of states and triggers; a missing entry means that nothing happens."""
    every = tuple(triggers)
    return {(state, trigger): row.get(trigger, STAY) for state, row in rows.items() for trigger in every}


def decided(outcome: _MoveT | Refusal | Stay) -> _MoveT | None:
    """The move that a table gives, None if nothing happens; ApiError 409 if the state refuses."""
    match outcome:
        case Refusal(message, code):
            raise ApiError(409, message, code)
        case Stay():
            return None
    return outcome
