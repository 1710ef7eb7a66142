"""`pytest tests/faults --plan FILE` replays one plan that a failure saved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.plans import CloudFault, Plan, WebhookFault, Word
from tests.support.faultrules import Answer, Breakage, BreakWatches, Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.plays import Plays


@pytest.mark.asyncio(loop_scope="session")
async def test_the_saved_plan_is_replayed(plays: Plays, request: pytest.FixtureRequest) -> None:
    await plays.holds(Plan.load(request.config.getoption("--plan")), meets=False)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_saved_plan_of_a_start_is_replayed(lone_plays: Plays, request: pytest.FixtureRequest) -> None:
    await lone_plays.holds(Plan.load(request.config.getoption("--plan")), meets=False)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_saved_plan_with_a_batch_is_replayed(batch_plays: Plays, request: pytest.FixtureRequest) -> None:
    await batch_plays.holds(Plan.load(request.config.getoption("--plan")), meets=False)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_saved_plan_with_two_operators_is_replayed(pair_plays: Plays, request: pytest.FixtureRequest) -> None:
    await pair_plays.holds(Plan.load(request.config.getoption("--plan")), meets=False)


@pytest.mark.asyncio(loop_scope="session")
async def test_the_saved_plan_with_a_batch_and_two_operators_is_replayed(
    batch_pair_plays: Plays, request: pytest.FixtureRequest
) -> None:
    await batch_pair_plays.holds(Plan.load(request.config.getoption("--plan")), meets=False)


def test_a_plan_is_read_back_as_it_was_saved(tmp_path: Path) -> None:
    rules = (
        Rule(Side.CLOUD, "POST /v1/pods", Hold(Moment.ACTED, Deed.KILL_OPERATOR)),
        Rule(Side.KUBE, "PATCH gpupods/status", Answer(409, "{}", (("Retry-After", "1"),)), subject="trainer", nth=2),
        Rule(Side.KUBE, "WATCH *", BreakWatches(Breakage.ERROR, 410), times=0),
    )
    plan = Plan(
        "a name/with signs",
        "pod",
        rules,
        (WebhookFault("lose"), WebhookFault("delaySeconds", 3.5, 2)),
        Word.ADOPT_ID,
        (CloudFault("GET /v1/batches", "staleSeconds", 2.5),),
    )
    assert Plan.load(plan.save(tmp_path)) == plan
