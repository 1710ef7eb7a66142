"""The leader is killed, told to stop or frozen during a create, and another operator takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.scenarios import CLUSTER, POD, WORKLOADS
from tests.faults.steps import NAMESAKE_IN_MID_CREATE
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from tests.faults.plays import Plays

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
async def test_the_leader_is_killed_in_mid_creation_of_a_cluster(pair_plays: Plays, when: Moment) -> None:
    rule = Rule(Side.CLOUD, CLUSTER.create, Hold(when, Deed.KILL_OPERATOR))
    await pair_plays.holds(Plan(f"cluster leader killed {when} the create", "cluster", (rule,)))


async def test_the_leader_is_killed_in_mid_creation_of_a_pod_that_nobody_tells_of(pair_plays: Plays) -> None:
    rule = Rule(Side.CLOUD, POD.create, Hold(Moment.ACTED, Deed.KILL_OPERATOR))
    lost = (WebhookFault("lose"),)
    await pair_plays.holds(Plan("pod leader killed and webhooks lost", "pod", (rule,), lost, Word.AS_FOUND))


@pytest.mark.parametrize("scenario", WORKLOADS)
async def test_the_leader_hands_over_in_order_during_a_create(pair_plays: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await pair_plays.holds(Plan(f"{scenario} leader told to stop during the create", scenario, (rule,)))


@pytest.mark.parametrize("scenario", ["namesake-in-mid-create", "namesake-in-mid-create-of-a-pod"])
@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
async def test_the_leader_is_frozen_while_it_creates_what_a_namesake_replaces(
    pair_plays: Plays, when: Moment, scenario: str
) -> None:
    frozen = Hold(when, Deed.FREEZE_OPERATOR)
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, frozen, phase=NAMESAKE_IN_MID_CREATE.phase)
    await pair_plays.holds(Plan(f"{scenario}: leader frozen {when} the create of what goes", scenario, (rule,)))
