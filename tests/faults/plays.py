"""Plays plans and compares the ending of each with that of the undisturbed run."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from pprint import pformat
from typing import TYPE_CHECKING, Final

from tests.faults.every_call import RequestClass, classes, may_be_hollow, plans, told
from tests.faults.every_scenario import EVERY
from tests.faults.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from tests.faults.learned import Learned
    from tests.faults.run import Ending, Played
    from tests.faults.stage import Stage

    Tell = Callable[[str, object], None]

HOLLOW: Final = "hollow fault plans"
"""The property of a test report that names a plan whose rule at first met no call."""
_MORE: Final = 2
"""A plan must meet a request only if so many more undisturbed runs send it, too."""


class Plays:
    """Plays plans on a stage; undisturbed runs may come from other stages, since they all end alike.

    Plans that fail are saved in `folder`.
    """

    def __init__(self, stage: Stage, folder: Path, learned: Learned) -> None:
        self.stage = stage
        self._folder = folder
        self._learned = learned

    async def learned(self, scenario: str, number: int = 0) -> Played:
        """Returns an undisturbed run of a scenario: the one from which plans are derived, or another by its number.

        Each is played only once.
        """
        name = f"{scenario}-{number}" if number else scenario
        played = self._learned.find(name)
        if played is None:
            undisturbed = await self._saved_if_it_fails(Plan(f"{scenario} undisturbed", scenario))
            played = self._learned.keep(name, undisturbed)
        return played

    async def holds(self, plan: Plan, *, meets: bool = True) -> Played:
        """Plays the plan; asserts that every oracle holds and that it ends as the undisturbed run does.

        With `meets`, it also asserts that every rule met a call: else the plan tests nothing.
        """
        learned = await self.learned(plan.scenario)
        played = await self._saved_if_it_fails(plan)
        failure = self._failure(plan, learned, played, meets=meets)
        assert not failure, failure
        return played

    async def classes(self, scenario: str) -> Mapping[RequestClass, int]:
        """Returns the classes of a scenario's requests, with the number of requests in each."""
        own = EVERY[scenario]
        everywhere = [one for one in classes((await self.learned("account")).calls) if not one.is_one_of(own.own)]
        found = classes((await self.learned(scenario)).calls, await self._known(scenario), everywhere)
        return {one: count for one, count in found.items() if own.only in {"", one.phase}}

    async def derived(self, scenario: str) -> list[Plan]:
        """Returns every plan derived from the scenario's undisturbed run."""
        return list(plans(scenario, await self.classes(scenario), await self._known(scenario)))

    async def told(self, scenario: str) -> str:
        """Returns, as text, the number of derived plans and of the requests in each class."""
        return told(scenario, await self.derived(scenario), await self.classes(scenario))

    async def all_hold(self, chosen: Iterable[Plan], tell: Tell) -> None:
        """Plays all plans; raises AssertionError with every failure.

        A plan whose rule meets no call tests nothing. The state at the time of a request can differ from run to run, so
        such a plan is played again with its request faulted in any state of the same phase. If the request is not sent
        then either, the plan fails, unless the phase can do without it: `may_be_hollow` says why, or another
        undisturbed run shows it. `tell` reports such plans.
        """
        failures = [failure for plan in chosen if (failure := await self._failure_of_derived(plan, tell))]
        assert not failures, "\n\n".join(failures)

    async def _failure_of_derived(self, plan: Plan, tell: Tell) -> str:
        try:
            if not (await self.holds(plan, meets=False)).unmet:
                return ""
            anywhere = plan.in_any_state()
            again, reason = await self.holds(anywhere, meets=False), "met in another state"
            if again.unmet:
                reason = may_be_hollow(plan) or await self._done_without(anywhere)
                assert reason, self._failure(anywhere, await self.learned(plan.scenario), again, meets=True)
            tell(HOLLOW, f"{plan.name}: {reason}")
        except AssertionError as failed:
            return _told_of(plan, failed)
        return ""

    async def _done_without(self, plan: Plan) -> str:
        """Returns that another undisturbed run sends no such request; empty if all do.

        Also empty if the run that the plan is derived from sends none: then its rule is wrong.
        """

        async def is_sent(number: int) -> bool:
            calls = (await self.learned(plan.scenario, number)).calls
            return all(any(rule.matches(one.call) for one in calls) for rule in plan.rules)

        if not await is_sent(0):
            return ""
        for number in range(1, 1 + _MORE):
            if not await is_sent(number):
                return "another undisturbed run sends no such request"
        return ""

    async def _known(self, scenario: str) -> list[RequestClass]:
        """Returns the request classes of the scenarios that this one comes after, which have their own plans."""
        return [one for earlier in EVERY[scenario].after for one in classes((await self.learned(earlier)).calls)]

    async def failure_of(self, plan: Plan, *, meets: bool = True) -> str:
        """Plays the plan and returns how it failed; empty if it held."""
        try:
            await self.holds(plan, meets=meets)
        except AssertionError as failed:
            return _told_of(plan, failed)
        return ""

    def _failure(self, plan: Plan, learned: Played, played: Played, *, meets: bool) -> str:
        problems = []
        if played.ending != learned.ending:
            problems.append("it ends otherwise than undisturbed:\n" + _difference(learned.ending, played.ending))
        if meets and played.unmet:
            problems.append("these rules met no call: " + "; ".join(map(str, played.unmet)))
        return f"{'; '.join(problems)}\n{self._how_to_replay(plan)}" if problems else ""

    async def _saved_if_it_fails(self, plan: Plan) -> Played:
        try:
            return await self.stage.play(plan)
        except Exception as failed:
            failed.add_note(self._how_to_replay(plan))
            raise

    def _how_to_replay(self, plan: Plan) -> str:
        return f"replay: pytest tests/faults --plan {plan.save(self._folder)}"


def _told_of(plan: Plan, failed: AssertionError) -> str:
    return "\n".join([f"{plan.name}: {failed}", *getattr(failed, "__notes__", [])])


def _difference(undisturbed: Ending, ending: Ending) -> str:
    one, other = (pformat(asdict(which)).splitlines() for which in (undisturbed, ending))
    return "\n".join(difflib.unified_diff(one, other, "undisturbed", "this run", lineterm="", n=1))
