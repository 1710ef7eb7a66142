"""The API server is killed during a create and restarted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conftest import OPERATOR_NAMESPACE
from tests.faults.conftest import module_fixture
from tests.faults.every_scenario import SCENARIOS
from tests.faults.plans import Plan
from tests.faults.plays import Plays
from tests.faults.scenarios import WORKLOADS
from tests.faults.stage import Stage
from tests.support import chart
from tests.support.controlplane import ControlPlane
from tests.support.faultrules import Deed, Hold, Moment, Rule, Side
from tests.support.kube import Kube

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.faults.learned import Learned
    from tests.support.binaries import ServerBinaries
    from tests.support.localcloud import LocalCloud

pytestmark = pytest.mark.asyncio(loop_scope="session")


@module_fixture
async def own_plays(
    server_binaries: ServerBinaries,
    fault_cloud: LocalCloud,
    plan_folder: Path,
    learned: Learned,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Plays]:
    """Plays plans on a control plane of its own, whose API server they may kill."""
    folder = tmp_path_factory.mktemp("own")
    plane = await ControlPlane.start(folder / "controlplane", server_binaries)
    async with Kube(plane.kubeconfig) as kube:
        await chart.install_crds(kube)
    kubeconfig = await chart.grant_access(plane, OPERATOR_NAMESPACE)
    async with Stage(folder, plane, kubeconfig, fault_cloud, api_server=plane.apiserver) as stage:
        yield Plays(stage, plan_folder, learned)
    await plane.stop()


@pytest.mark.parametrize("scenario", WORKLOADS)
async def test_it_is_killed_after_the_create_was_acted_on(own_plays: Plays, scenario: str) -> None:
    rule = Rule(Side.CLOUD, SCENARIOS[scenario].kind.create, Hold(Moment.ACTED, Deed.RESTART_API_SERVER))
    await own_plays.holds(Plan(f"{scenario} API server killed in mid-create", scenario, (rule,)))


@pytest.mark.parametrize("when", [Moment.BEFORE, Moment.ACTED])
async def test_it_is_killed_while_the_intent_is_written(own_plays: Plays, when: Moment) -> None:
    rule = Rule(Side.KUBE, "PATCH gpupods", Hold(when, Deed.RESTART_API_SERVER))
    await own_plays.holds(Plan(f"pod API server killed {when} the intent", "pod", (rule,)))
