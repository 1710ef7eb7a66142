"""The leader is killed in the middle of a create, and another takes over what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.conftest import module_fixture
from tests.faults.plans import Plan, WebhookFault, Word
from tests.faults.plays import Plays
from tests.faults.scenarios import CLUSTER, POD, SCENARIOS
from tests.faults.stage import LEASE, Stage
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.conftest import SharedOperator
    from tests.faults.run import Played
    from tests.support.controlplane import Cluster
    from tests.support.localcloud import LocalCloud

pytestmark = pytest.mark.asyncio(loop_scope="session")


@module_fixture
async def pair(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    fault_cloud: LocalCloud,
    plan_folder: Path,
    learned: dict[str, Played],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Plays]:
    """Two operators, of which one leads."""
    await shared_operator.operator.stop()
    folder = tmp_path_factory.mktemp("pair")
    async with Stage(folder, cluster, operator_kubeconfig, fault_cloud, LEASE, replicas=2) as stage:
        yield Plays(stage, plan_folder, learned)


@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
async def test_the_leader_is_killed_in_mid_creation_of_a_cluster(pair: Plays, when: Moment) -> None:
    rule = Rule(Side.CLOUD, CLUSTER.create, Hold(when, Deed.KILL_OPERATOR))
    await pair.holds(Plan(f"cluster leader killed {when} the create", "cluster", (rule,)))


async def test_the_leader_is_killed_in_mid_creation_of_a_pod_that_nobody_tells_of(pair: Plays) -> None:
    rule = Rule(Side.CLOUD, POD.create, Hold(Moment.ACTED, Deed.KILL_OPERATOR))
    lost = (WebhookFault("lose"),)
    await pair.holds(Plan("pod leader killed and webhooks lost", "pod", (rule,), lost, Word.ADOPT_ID))


@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_leader_is_frozen_in_mid_creation_and_wakes_when_another_leads(
    pair: Plays, scenario: str, when: Moment
) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(when, Deed.FREEZE_OPERATOR))
    await pair.holds(Plan(f"{scenario} leader frozen {when} the create", scenario, (rule,)))


@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_the_leader_hands_over_in_order_during_a_create(pair: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await pair.holds(Plan(f"{scenario} leader told to stop during the create", scenario, (rule,)))
