"""Somebody else wrote first: each write to Kubernetes is refused once with 409."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import Plan
from tests.faults.sampling import few
from tests.support.faultrules import Answer, Logged, Rule, Side, kube_failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


def _conflicts(scenario: str, learned: Iterable[Logged], plurals: tuple[str, ...]) -> list[Plan]:
    """A plan for each write of the undisturbed run to these resources."""
    seen: dict[str, int] = {}
    plans = []
    for call in (one.call for one in learned if one.call.side is Side.KUBE and one.call.writes):
        verb, _, resource = call.operation.partition(" ")
        if resource.partition("/")[0] not in plurals:
            continue
        nth = seen[str(call)] = seen.get(str(call), 0) + 1
        reason = "AlreadyExists" if verb == "POST" else "Conflict"
        refusal = Answer(409, kube_failure(409, reason, "the object has been modified"))
        rule = Rule(Side.KUBE, call.operation, refusal, subject=call.subject, nth=nth)
        plans.append(Plan(f"{scenario} 409 at {call.operation} {call.subject} {nth}", scenario, (rule,)))
    return plans


@pytest.mark.parametrize(
    ("scenario", "plurals"),
    [("pod", ("gpupods",)), ("cluster", ("gpuclusters",)), ("pod", ("cloudaccounts", "secrets"))],
)
async def test_each_write_may_be_refused_once(
    request: pytest.FixtureRequest, plays: Plays, scenario: str, plurals: tuple[str, ...]
) -> None:
    plans = _conflicts(scenario, (await plays.learned(scenario)).calls, plurals)
    assert len(plans) >= 4, f"there should be more writes than {plans}"
    played = few(plans, request.node.name, request.config.getoption("--sample"))
    failures = [failure for plan in played if (failure := await plays.failure_of(plan, meets=False))]
    assert not failures, "\n\n".join(failures)


@pytest.mark.parametrize("scenario", ["pod", "cluster"])
async def test_every_status_write_may_be_refused_several_times(plays: Plays, scenario: str) -> None:
    refusal = Answer(409, kube_failure(409, "Conflict", "the object has been modified"))
    rule = Rule(Side.KUBE, "PATCH gpu*/status", refusal, times=3)
    await plays.holds(Plan(f"{scenario} three conflicts in a row", scenario, (rule,)))
