"""The stage of fault plans, and `--plan FILE`, which replays one that was saved."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.faults import oracles
from tests.faults.batch_scenarios import BATCHES, CLOCK_RATE, SETTINGS
from tests.faults.plans import Plan
from tests.faults.plays import Plays
from tests.faults.run import Played
from tests.faults.sampling import sampled_out
from tests.faults.stage import Stage
from tests.support.localcloud import LocalCloud, Ports
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import SharedOperator
    from tests.support.controlplane import Cluster

# Of the cloud, for plans: an object is Ready soon, and yet after its create was answered.
LATENCIES = {"placementSeconds": 0.2, "startSeconds": 0.2, "stopSeconds": 0.1, "webhookTimeoutSeconds": 2}
REPLAYS = ("test_the_saved_plan_is_replayed", "test_the_saved_plan_with_a_batch_is_replayed")
session_fixture = pytest_asyncio.fixture(scope="session", loop_scope="session")
module_fixture = pytest_asyncio.fixture(scope="module", loop_scope="session")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest tests/faults --plan FILE`."""
    parser.addoption("--plan", type=Path, default=None, help="replay one saved fault plan, and nothing else")


@pytest.hookimpl(trylast=True)  # of what is selected by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--plan`, only the test that replays it, on the stage that it needs; without, all but those that replay.

    With `--sample`, some plans of each class of fault and kind of object (`sampling.py`).
    """
    path = config.getoption("--plan", default=None)
    here = Path(__file__).parent
    wanted = None if path is None else REPLAYS[Plan.load(path).scenario in BATCHES]
    unwanted = [
        item
        for item in items
        if here in item.path.parents and (item.name in REPLAYS if wanted is None else item.name != wanted)
    ]
    seed: int | None = config.getoption("--sample", default=None)
    if seed is not None:
        plans = [item for item in items if here in item.path.parents and item not in unwanted]
        unwanted += sampled_out(plans, seed)
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]


@pytest.fixture(scope="session")
def plan_folder(request: pytest.FixtureRequest) -> Path:
    """Where plans that failed are saved."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("fault-plans")


@pytest.fixture(scope="session")
def learned() -> dict[str, Played]:
    """The undisturbed run of each scenario, once it was played."""
    return {}


@session_fixture
async def kept_fault_cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    """The process behind `fault_cloud`."""
    kept = LocalCloud(tmp_path_factory.mktemp("faultcloud"), Ports.free())
    yield kept
    await kept.process.kill()


@module_fixture
async def fault_cloud(kept_fault_cloud: LocalCloud) -> LocalCloud:
    """A local cloud for plans, whose clock they may move."""
    await kept_fault_cloud.freshly_seeded()
    await kept_fault_cloud.control.settings(**LATENCIES)
    return kept_fault_cloud


@module_fixture
async def plays(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    fault_cloud: LocalCloud,
    plan_folder: Path,
    learned: dict[str, Played],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Plays]:
    """Plays plans on the shared API server. The shared operator rests meanwhile."""
    await shared_operator.operator.stop()
    folder = tmp_path_factory.mktemp("stage")
    async with Stage(folder, cluster, operator_kubeconfig, fault_cloud) as stage:
        yield Plays(stage, plan_folder, learned)


@module_fixture
async def fault_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[S3Server]:
    """An S3 server for plans; what opens it is a canary."""
    own = S3Server(tmp_path_factory.mktemp("faultstore"), secret_key=oracles.CANARY + secrets.token_hex(12))
    await own.start()
    yield own
    await own.process.kill()


@module_fixture
async def batch_cloud(fault_cloud: LocalCloud) -> LocalCloud:
    """The cloud of `fault_cloud`, in which time passes faster."""
    await fault_cloud.control.clock(mode="scaled", rate=CLOCK_RATE)
    return fault_cloud


@module_fixture
async def batch_plays(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    batch_cloud: LocalCloud,
    fault_store: S3Server,
    plan_folder: Path,
    learned: dict[str, Played],
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Plays]:
    """Plays plans with batches."""
    await shared_operator.operator.stop()
    folder = tmp_path_factory.mktemp("batchstage")
    async with Stage(folder, cluster, operator_kubeconfig, batch_cloud, SETTINGS, store=fault_store) as stage:
        yield Plays(stage, plan_folder, learned)
