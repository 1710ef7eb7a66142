"""Plans for every call of a scenario, derived from its undisturbed run.

Requests with the same operation, phase and state are one class: its first request stands for all of it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from tests.conftest import OPERATOR_NAMESPACE
from tests.faults.every_scenario import EVERY
from tests.faults.perturbations import ALWAYS, PERTURBATIONS, Asks
from tests.faults.plans import Plan, Word
from tests.support.faultrules import Call, Deed, Hold, Rule, Side

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.support.faultrules import Logged

# Of the scaffold: the operator starts, and the account goes when everything is over.
_SCAFFOLD: Final = frozenset({"", "leave"})
# How the name of what a schedule starts ends.
_BY_THE_TIME: Final = re.compile(r"-\d{6,}$")
# What is listed everywhere, again and again, is so while nothing else happens too.
_QUIET: Final = ("rest", "")
_AGAIN: Final = ("LIST ", "WATCH ", "GET ")
_ALL_OVER: Final = frozenset({"", OPERATOR_NAMESPACE})


@dataclass(frozen=True)
class RequestClass:
    """What the requests have in common that a plan for one of them stands for."""

    side: Side
    operation: str
    subject: str
    phase: str
    state: str

    @classmethod
    def of(cls, call: Call) -> RequestClass:
        """Identifiers of the cloud, and names that are made up, are `*`."""
        made_up = call.operation.endswith(" events") or call.namespace == OPERATOR_NAMESPACE
        named = call.side is Side.STORE or (call.side is Side.KUBE and not made_up)
        subject = _BY_THE_TIME.sub("-*", call.subject) if named else "*"
        return cls(call.side, call.operation, subject, call.phase, call.state)

    @property
    def asked(self) -> tuple[Side, str, str]:
        """The request alone, whenever it is sent."""
        return self.side, self.operation, self.subject

    @property
    def asks(self) -> Asks:
        """What its requests ask for."""
        return Asks.by(Call(self.side, self.operation))

    def is_one_of(self, operations: Iterable[str]) -> bool:
        """Whether its operation matches one of the patterns."""
        return any(fnmatchcase(self.operation, pattern) for pattern in operations)

    def __str__(self) -> str:
        where = f"{self.phase}, {self.state}" if self.state else self.phase
        return f"{self.side}: {self.operation} {self.subject}".removesuffix(" *") + f" ({where})"


def classes(
    calls: Iterable[Logged], known: Iterable[RequestClass] = (), background: Iterable[RequestClass] = ()
) -> Mapping[RequestClass, int]:
    """How many requests each class stands for; without those that are known, and without what the background asks."""
    left_out, everywhere = set(known), {one.asked for one in background}
    counted: Counter[RequestClass] = Counter()
    for call in (one.call for one in calls if one.call.phase not in _SCAFFOLD):
        found = RequestClass.of(call)
        by_the_clock = call.side is Side.KUBE and not call.namespace
        if (
            (not by_the_clock or (call.phase, call.state) == _QUIET)
            and found not in left_out
            and found.asked not in everywhere
        ):
            counted[found] += 1
    return counted


def plans(scenario: str, found: Iterable[RequestClass]) -> Iterator[Plan]:
    """A plan for each perturbation that the table has for such requests."""
    create = EVERY[scenario].kind.create
    for one in found:
        for what, action in PERTURBATIONS[one.side].get(one.asks, {}).items():
            rule = Rule(one.side, one.operation, action, one.subject, phase=one.phase, state=one.state)
            always = one.operation == create and what in ALWAYS
            yield Plan(f"{scenario}: {what}: {one}", scenario, (rule,), word=Word.AS_FOUND, always=always)


def needs_two_operators(plan: Plan) -> bool:
    """Whether another one has to take over."""
    actions = (rule.action for rule in plan.rules)
    return any(isinstance(action, Hold) and action.deed is Deed.FREEZE_OPERATOR for action in actions)


def told(scenario: str, found: Mapping[RequestClass, int]) -> str:
    """How many plans there are, and what each class stands for."""
    derived = list(plans(scenario, found))
    lines = [f"{scenario}: {len(derived)} plans for {len(found)} classes of {sum(found.values())} requests"]
    return "\n".join(lines + [f"  {count:4} {one}" for one, count in found.items()])
