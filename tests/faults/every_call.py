"""Derives plans for every call of a scenario from its undisturbed run.

Requests with the same operation, phase and state form one class: its first request represents all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from tests.conftest import OPERATOR_NAMESPACE
from tests.faults.every_scenario import EVERY
from tests.faults.perturbations import ALWAYS, FORMS, OF_CREATES, PERTURBATIONS, Asks
from tests.faults.plans import Plan, Word
from tests.faults.scenarios import CLUSTER, POD, RUNNERS, STARTED, VM
from tests.support.faultrules import Call, Deed, Hold, Overtaken, Rule, Side

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from tests.support.faultrules import Logged

# Phases outside the scenario: the operator's start, and the deletion of the account at the end.
_SCAFFOLD: Final = frozenset({"", "leave"})
# Creates with a name by which the operator finds and reports a late one.
_MADE_LATE: Final = frozenset({POD.create, VM.create, CLUSTER.create})
# The end of the name of an object that a schedule creates.
_BY_THE_TIME: Final = re.compile(r"-\d{6,}$")
# Periodic requests outside any namespace are also sent while nothing else happens; they get plans only then.
_REST: Final = "rest"
_QUIET: Final = (_REST, "")
SOMETIMES: Final[Mapping[tuple[Side, str, str], str]] = {
    (Side.CLOUD, CLUSTER.look[0], "*"): "what has settled is in its organization's list, so who is faster"
    " decides whether a phase has one more look at it alone",
    (Side.CLOUD, RUNNERS.look[0], "*"): "of what has settled, nobody sees when it is looked at",
    **{
        (Side.KUBE, "GET secrets", name): "it is read again by the clock, and a phase may be over before"
        for name in ("default-webhook", "other-webhook")
    },
    (Side.KUBE, "GET secrets", "training"): "a deletion begins with a look only if it is told before the next poll",
    **{
        (
            Side.KUBE,
            f"{verb} configmaps",
            "relay-spend-default",
        ): "the account's next look at the month's usage asks for it, in whatever phase that is"
        for verb in ("GET", "POST", "PATCH")
    },
}
"""Requests that a phase may do without, and why."""
_WHEN_FORCED: Final = frozenset({POD.terminate, CLUSTER.terminate, "DELETE configmaps"})
"""Requests whose phase, if they are sent at all, depends on whether the operator is faster than the removal of a
finalizer."""


@dataclass(frozen=True)
class RequestClass:
    """What requests have in common that one plan represents."""

    side: Side
    operation: str
    subject: str
    phase: str
    state: str

    @classmethod
    def of(cls, call: Call) -> RequestClass:
        """Returns the class of a call; cloud ids and generated names become `*`.

        All Events form one class: a separate task sends them, and no pass waits for their answers.
        """
        made_up = call.operation.endswith(" events") or call.namespace == OPERATOR_NAMESPACE
        named = call.side is Side.STORE or (call.side is Side.KUBE and not made_up)
        subject = _BY_THE_TIME.sub("-*", call.subject) if named else "*"
        phase, state = ("*", "*") if call.operation == "POST events" else (call.phase, call.state)
        return cls(call.side, call.operation, subject, phase, state)

    @property
    def asked(self) -> tuple[Side, str, str]:
        """The request without phase and state."""
        return self.side, self.operation, self.subject

    @property
    def asks(self) -> Asks:
        """The sort of its requests."""
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
    """Returns the classes with their numbers of requests, without known ones and without those of the background."""
    left_out, everywhere = set(known), {one.asked for one in background}
    counted: Counter[RequestClass] = Counter()
    for call in (one.call for one in calls if one.call.phase not in _SCAFFOLD):
        found = RequestClass.of(call)
        by_the_clock = call.side is Side.KUBE and not call.namespace and call.phase != STARTED
        if (
            (not by_the_clock or (call.phase, call.state) == _QUIET)
            and found not in left_out
            and found.asked not in everywhere
        ):
            counted[found] += 1
    return counted


def plans(scenario: str, found: Iterable[RequestClass], known: Iterable[RequestClass] = ()) -> Iterator[Plan]:
    """Yields a plan for each fault in the table for each class; `known` classes have plans in another scenario."""
    create, met_by = EVERY[scenario].kind.create, EVERY[scenario].met_by
    asked = {(one.side, one.operation) for one in known}
    for one in found:
        again = (one.side, one.operation) in asked
        asked.add((one.side, one.operation))
        late = OF_CREATES if one.operation == create in _MADE_LATE else {}
        table = {**PERTURBATIONS[one.side].get(one.asks, {}), **late}
        met = [what for what in table if not ((again and what in FORMS) or (met_by and what not in met_by))]
        for what in met:
            rule = Rule(one.side, one.operation, table[what], one.subject, phase=one.phase, state=one.state)
            always, first = one.operation == create and what in ALWAYS, what == met[0]
            name = f"{scenario}: {what}: {one}"
            yield Plan(name, scenario, (rule,), word=Word.AS_FOUND, always=always, waits_long=first)


def may_be_hollow(plan: Plan) -> str:
    """Returns why a plan may meet no call in any state; empty if it must meet one."""
    rule = plan.rules[0]
    why = (reason for applies, reason in _HOLLOW if applies(plan.scenario, rule))
    return next(why, "") or SOMETIMES.get((rule.side, rule.operation, rule.subject), "")


_HOLLOW: Final[tuple[tuple[Callable[[str, Rule], bool], str], ...]] = (
    (
        lambda scenario, rule: EVERY[scenario].forced and isinstance(rule.action, Overtaken),
        "what is forced away is not made again, so nothing can overtake it",
    ),
    (
        lambda scenario, rule: EVERY[scenario].forced and rule.operation in _WHEN_FORCED,
        "the operator may be faster than who takes the finalizer off",
    ),
    (
        lambda _, rule: rule.operation == "PATCH cloudaccounts/status" and rule.phase != "account",
        "the account's next look at its money, or at who uses it, asks for it, in whatever phase that is",
    ),
    (
        lambda _, rule: (rule.operation, rule.phase) == ("GET secrets", "delete"),
        "a key is read again once a minute, and a deletion is over before",
    ),
    (
        lambda scenario, rule: (scenario, rule.phase) == ("account", "delete") and _reads_the_cloud(rule),
        "an account is looked at by the clock, and its deletion may be over before",
    ),
    (
        lambda _, rule: rule.operation == "GET /v1/pricing" and rule.phase != "create",
        "prices are read again by the clock, in whatever phase that is",
    ),
    (
        lambda scenario, rule: rule.operation == "POST events" and scenario == "rotated-key",
        "only a pass between the two keys has something to report",
    ),
    (
        lambda scenario, rule: (scenario, rule.operation, rule.phase) == ("rotated-key", "PATCH gpupods/status", _REST),
        "only a pass between the two keys has something to report, and it may be over before the rest",
    ),
    (
        lambda scenario, rule: rule.operation == "POST events" and scenario == "namespace",
        "only a pass between the end of its Secrets and that of the pod has something to report",
    ),
    (
        lambda scenario, rule: (
            rule.operation in {"GET configmaps", "DELETE configmaps"}
            and (rule.phase == "restore" or (scenario.startswith("restored-") and rule.phase == _REST))
        ),
        "the account's next look deletes the record of what was kept, in whatever phase that is",
    ),
    (
        lambda scenario, rule: rule.operation == POD.look[0] and EVERY[scenario].kind is CLUSTER,
        "a pod beside the cluster has settled, so the clock says when it is looked at",
    ),
    (
        lambda _, rule: rule.phase == _REST and _reads_the_cloud(rule),
        "what rests is looked at by the clock, and the rest may be over before",
    ),
)
"""When a rule may meet no call, and why; `SOMETIMES` has requests that any phase may do without."""


def _reads_the_cloud(rule: Rule) -> bool:
    return rule.side is Side.CLOUD and rule.operation.startswith("GET ")


def needs_two_operators(plan: Plan) -> bool:
    """Whether a rule freezes the operator, so that another has to take over."""
    actions = (rule.action for rule in plan.rules)
    return any(isinstance(action, Hold) and action.deed is Deed.FREEZE_OPERATOR for action in actions)


def told(scenario: str, derived: Collection[Plan], found: Mapping[RequestClass, int]) -> str:
    """Returns, as text, the number of plans and the number of requests in each class."""
    lines = [f"{scenario}: {len(derived)} plans for {len(found)} classes of {sum(found.values())} requests"]
    return "\n".join(lines + [f"  {count:4} {one}" for one, count in found.items()])
