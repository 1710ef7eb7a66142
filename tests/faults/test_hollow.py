"""A derived plan whose rule meets no call is not ignored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.faults.learned import Learned
from tests.faults.plans import Plan
from tests.faults.plays import HOLLOW, Plays
from tests.faults.scenarios import CLUSTER
from tests.support.faultrules import Call, Logged, LoseReply, Rule, Side

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.long
async def test_a_plan_that_meets_no_call_is_played_in_any_state_and_told_or_fails(plays: Plays, tmp_path: Path) -> None:
    learned, usual = Learned(tmp_path), await plays.learned("cluster")
    once = Logged(len(usual.calls), Call(Side.CLOUD, "POST /v1/seldom", phase="create"), {})
    learned.keep("cluster", replace(usual, calls=(*usual.calls, once)))
    elsewhere = Rule(Side.CLOUD, CLUSTER.create, LoseReply(), phase="create", state="Unheard")
    seldom = Rule(Side.CLOUD, once.call.operation, LoseReply(), phase="create")
    unsent = Rule(Side.CLOUD, CLUSTER.create, LoseReply(), phase="delete")
    unmet = Rule(Side.CLOUD, CLUSTER.create, LoseReply(), phase="create", nth=99)
    rules = {"elsewhere": elsewhere, "seldom": seldom, "unsent": unsent, "unmet": unmet}
    told: list[tuple[str, object]] = []
    with pytest.raises(AssertionError) as failed:
        await Plays(plays.stage, tmp_path, learned).all_hold(
            [Plan(name, "cluster", (rule,)) for name, rule in rules.items()], lambda *its: told.append(its)
        )
    assert told == [
        (HOLLOW, "elsewhere: met in another state"),
        (HOLLOW, "seldom: another undisturbed run sends no such request"),
    ]
    failures = str(failed.value).split("\n\n")
    assert [one.partition(": these rules met no call")[0] for one in failures] == ["unsent", "unmet"]
