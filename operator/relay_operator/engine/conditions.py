"""Conditions as kstatus reads them: one writer, stable transition times. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from relay_operator.api.conditions import Condition, ConditionType, Reason

MESSAGE_LIMIT = 1024
_SHOWN = 3
"""How many names a message lists."""
_PATIENCE = timedelta(minutes=5)
"""How long a reason that may resolve by itself is Reconciling before it is Stalled."""
_FOR_MONEY = frozenset({Reason.WAITING_FOR_BUDGET, Reason.BALANCE_EXHAUSTED})


@dataclass(frozen=True, slots=True)
class Wanted:
    """The desired content of a condition."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: str
    """A `Reason`; a condition that is carried over may have one of another release."""
    message: str = ""
    generation: int | None = None
    """That of the spec that it is about, if it is carried over; None: the present one."""


def is_unfunded(conditions: Iterable[Condition]) -> bool:
    """Whether something waits for money, according to the cloud or to the account's budget."""
    exceeded = find(conditions, ConditionType.BUDGET_EXCEEDED)
    return exceeded is not None and exceeded.status == "True" and exceeded.reason in _FOR_MONEY


def find(conditions: Iterable[Condition], wanted: ConditionType) -> Condition | None:
    for condition in conditions:
        if condition.type == wanted:
            return condition
    return None


def as_it_was(known: Condition, generation: int | None = None) -> Wanted:
    """The condition once more, as that of this generation of the spec; None: the present one."""
    return Wanted(ConditionType(known.type), known.status, known.reason, known.message, generation)


def waited_out(before: Sequence[Condition], reason: str, now: datetime) -> bool:
    """Whether a reason that may resolve by itself has lasted: it is Reconciling before that, and Stalled after it."""
    stalled, waiting = find(before, ConditionType.STALLED), find(before, ConditionType.RECONCILING)
    if stalled is not None and stalled.reason == reason:
        return True
    return waiting is not None and waiting.reason == reason and now - waiting.last_transition_time >= _PATIENCE


def written(before: Sequence[Condition], wanted: Iterable[Wanted], generation: int, now: datetime) -> list[Condition]:
    """Exactly the wanted conditions, in order; a condition whose status is unchanged keeps its transition time."""
    return [_written(find(before, item.type), item, generation, now) for item in wanted]


def _written(before: Condition | None, wanted: Wanted, generation: int, now: datetime) -> Condition:
    stays = before is not None and before.status == wanted.status
    return Condition(
        type=wanted.type,
        status=wanted.status,
        reason=wanted.reason,
        message=clipped(wanted.message),
        last_transition_time=before.last_transition_time if stays and before is not None else now,
        observed_generation=generation if wanted.generation is None else wanted.generation,
    )


def some(names: Sequence[str]) -> str:
    """The first of these names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


def clipped(text: str) -> str:
    """The text, cut to what a condition's message or `statusReason` may hold."""
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"
