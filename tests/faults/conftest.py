"""Fixtures of fault plans and histories, and options that replay saved ones or choose a part."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import uvloop

from tests.conftest import ON_CLUSTER
from tests.faults import oracles
from tests.faults.batch_scenarios import BATCHES, CLOCK_RATE, SETTINGS
from tests.faults.every_call import needs_two_operators
from tests.faults.every_scenario import STARTS
from tests.faults.learned import Learned
from tests.faults.neighbour import Neighbour
from tests.faults.plans import Plan
from tests.faults.plays import Plays
from tests.faults.sampling import Chosen, sampled_out
from tests.faults.stage import LEASE, Stages
from tests.support.localcloud import LocalCloud, Ports
from tests.support.s3 import S3Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.conftest import SharedOperator
    from tests.support.binaries import ServerBinaries
    from tests.support.controlplane import Cluster

# Settings of the cloud for plans: an object is Ready soon, but after its create was answered.
LATENCIES = {"placementSeconds": 0.2, "startSeconds": 0.2, "stopSeconds": 0.1, "webhookTimeoutSeconds": 2}
REPLAYS = {
    "one": "test_the_saved_plan_is_replayed",
    "lone": "test_the_saved_plan_of_a_start_is_replayed",
    "pair": "test_the_saved_plan_with_two_operators_is_replayed",
    "batches": "test_the_saved_plan_with_a_batch_is_replayed",
    "batch pair": "test_the_saved_plan_with_a_batch_and_two_operators_is_replayed",
    "history": "test_the_saved_history_is_replayed",
}
session_fixture = pytest_asyncio.fixture(scope="session", loop_scope="session")
module_fixture = pytest_asyncio.fixture(scope="module", loop_scope="session")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--plan FILE`, `--history FILE`, `--plans I/N` and `--histories-from SEED`."""
    parser.addoption("--plan", type=Path, default=None, help="replay one saved fault plan, and nothing else")
    parser.addoption("--history", type=Path, default=None, help="replay one saved history, and nothing else")
    parser.addoption("--histories-from", type=int, default=None, metavar="SEED", help="the seed of the first history")
    parser.addoption("--plans", default="1/1", metavar="I/N", help="of the derived plans, the I-th of N parts")


def pytest_configure(config: pytest.Config) -> None:
    """Uses uvloop for `make test-long`, where it saves a third of the test process's CPU.

    Not for runs of every commit: libuv aborts, once in many hours, when a server is killed during a connect.
    """
    if config.getoption("--histories-from", default=None) is not None:
        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())


def pytest_report_header(config: pytest.Config) -> str | None:
    """Prints the first seed of `make test-long` and how to repeat the run."""
    seed: int | None = config.getoption("--histories-from")
    return None if seed is None else f"histories by chance, from {seed} on; the same again: make test-long SEED={seed}"


@pytest.hookimpl(trylast=True)  # after the selection by marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--plan` or `--history`, selects only the test that replays it; without, all except the replays.

    With `--sample`, selects some plans of each class of fault and kind of object (`sampling.py`); without, all plans,
    except the tests `test_some_...`, which play samples.
    """
    path = config.getoption("--plan", default=None)
    here = Path(__file__).parent
    wanted = None if path is None else REPLAYS[_stage_of(Plan.load(path))]
    wanted = REPLAYS["history"] if config.getoption("--history", default=None) else wanted
    seed: int | None = config.getoption("--sample", default=None)
    unwanted = [
        item for item in items if here in item.path.parents and _is_left_out(item, wanted, sample=seed is not None)
    ]
    if seed is not None:
        plans = [item for item in items if here in item.path.parents and item not in unwanted]
        unwanted += sampled_out(plans, seed)
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]


def _is_left_out(item: pytest.Item, wanted: str | None, *, sample: bool) -> bool:
    if wanted is not None:
        return item.name != wanted
    return item.name in REPLAYS.values() or (not sample and item.name.startswith("test_some_"))


def _stage_of(plan: Plan) -> str:
    """Returns the key in REPLAYS of the stage that a plan needs."""
    if plan.scenario in BATCHES:
        return "batch pair" if needs_two_operators(plan) else "batches"
    if plan.scenario in STARTS:
        return "lone"
    return "pair" if needs_two_operators(plan) else "one"


@pytest.fixture(scope="session")
def plan_folder(request: pytest.FixtureRequest) -> Path:
    """The folder in which failed plans are saved."""
    assert request.config.cache is not None
    return request.config.cache.mkdir("fault-plans")


@pytest.fixture(scope="session")
def learned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """The undisturbed runs that workers share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "learned"
    folder.mkdir(exist_ok=True)
    return Learned(folder)


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> Chosen:
    """The derived plans that this run plays."""
    return Chosen.part_of(request.config.getoption("--plans", "1/1"), request.config.getoption("--sample"))


@session_fixture
async def kept_fault_cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    """The process behind `fault_cloud`, for the whole session."""
    kept = LocalCloud(tmp_path_factory.mktemp("faultcloud"), Ports.free(), forks=True)
    yield kept
    await kept.process.kill()


@module_fixture
async def fault_cloud(kept_fault_cloud: LocalCloud) -> LocalCloud:
    """A freshly seeded local cloud for plans, whose clock they may advance."""
    await kept_fault_cloud.freshly_seeded()
    await kept_fault_cloud.control.settings(**LATENCIES)
    return kept_fault_cloud


@session_fixture
async def neighbour(
    request: pytest.FixtureRequest,
    server_binaries: ServerBinaries,
    kept_fault_cloud: LocalCloud,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Neighbour]:
    """Another cluster, which starts on first use."""
    own = Neighbour(tmp_path_factory.mktemp("neighbour"), server_binaries, kept_fault_cloud)
    request.config.stash.setdefault(ON_CLUSTER, []).append(own.end_now)
    yield own
    await own.end()


@pytest.fixture(scope="session")
def stages(
    cluster: Cluster,
    operator_kubeconfig: Path,
    shared_operator: SharedOperator,
    tmp_path_factory: pytest.TempPathFactory,
) -> Stages:
    """Stages on the shared API server."""
    return Stages(cluster, operator_kubeconfig, shared_operator, tmp_path_factory)


@module_fixture
async def plays(
    stages: Stages, fault_cloud: LocalCloud, neighbour: Neighbour, plan_folder: Path, learned: Learned
) -> AsyncIterator[Plays]:
    """Plays plans with one operator, without leader election."""
    async with stages.stage(fault_cloud, neighbour=neighbour) as stage:
        yield Plays(stage, plan_folder, learned)


@module_fixture
async def lone_plays(
    stages: Stages, fault_cloud: LocalCloud, plan_folder: Path, learned: Learned
) -> AsyncIterator[Plays]:
    """Plays plans with one operator and leader election."""
    async with stages.stage(fault_cloud, LEASE) as stage:
        yield Plays(stage, plan_folder, learned)


@module_fixture
async def pair_plays(
    stages: Stages, fault_cloud: LocalCloud, neighbour: Neighbour, plan_folder: Path, learned: Learned
) -> AsyncIterator[Plays]:
    """Plays plans with two operators and leader election."""
    async with stages.stage(fault_cloud, LEASE, replicas=2, neighbour=neighbour) as stage:
        yield Plays(stage, plan_folder, learned)


@module_fixture
async def fault_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[S3Server]:
    """An S3 server for plans; its secret key is a canary."""
    own = S3Server(tmp_path_factory.mktemp("faultstore"), secret_key=oracles.CANARY + secrets.token_hex(12))
    await own.start()
    yield own
    await own.process.kill()


@module_fixture
async def batch_cloud(fault_cloud: LocalCloud) -> LocalCloud:
    """`fault_cloud` with a faster clock."""
    await fault_cloud.control.clock(mode="scaled", rate=CLOCK_RATE)
    return fault_cloud


@module_fixture
async def batch_plays(
    stages: Stages, batch_cloud: LocalCloud, fault_store: S3Server, plan_folder: Path, learned: Learned
) -> AsyncIterator[Plays]:
    """Plays plans of batches with one operator, without leader election."""
    async with stages.stage(batch_cloud, SETTINGS, store=fault_store) as stage:
        yield Plays(stage, plan_folder, learned)


@module_fixture
async def batch_pair_plays(
    stages: Stages, batch_cloud: LocalCloud, fault_store: S3Server, plan_folder: Path, learned: Learned
) -> AsyncIterator[Plays]:
    """Plays plans of batches with two operators and leader election."""
    async with stages.stage(batch_cloud, SETTINGS | LEASE, replicas=2, store=fault_store) as stage:
        yield Plays(stage, plan_folder, learned)
