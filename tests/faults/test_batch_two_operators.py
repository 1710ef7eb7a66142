"""The leader is killed in the middle of a batch, and another takes over what it left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.batch_side import CREATE_BATCH, UPLOAD
from tests.faults.batch_scenarios import SETTINGS
from tests.faults.conftest import module_fixture
from tests.faults.plans import Plan
from tests.faults.plays import Plays
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
    batch_cloud: LocalCloud,
    plan_folder: Path,
    learned: dict[str, Played],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Plays]:
    """Two operators, of which one leads."""
    await shared_operator.operator.stop()
    folder = tmp_path_factory.mktemp("batchpair")
    async with Stage(folder, cluster, operator_kubeconfig, batch_cloud, SETTINGS | LEASE, replicas=2) as stage:
        yield Plays(stage, plan_folder, learned)


_STEPS = {
    "while it uploads": (Side.INFERENCE, UPLOAD, Moment.ACTED),
    "after the create was acted on": (Side.INFERENCE, CREATE_BATCH, Moment.ACTED),
    "after the output was published": (Side.KUBE, "POST configmaps", Moment.ACTED),
}


@pytest.mark.parametrize("when", _STEPS)
async def test_the_leader_is_killed(pair: Plays, when: str) -> None:
    side, operation, moment = _STEPS[when]
    rule = Rule(side, operation, Hold(moment, Deed.KILL_OPERATOR))
    await pair.holds(Plan(f"batch leader killed {when}", "batch", (rule,)))


async def test_the_leader_hands_over_in_order_during_a_create(pair: Plays) -> None:
    rule = Rule(Side.INFERENCE, CREATE_BATCH, Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR))
    await pair.holds(Plan("batch leader told to stop during the create", "batch", (rule,)))
