"""What tests share: one control plane, one local cloud and one operator for the whole run, a corner of them each.

Everything starts when the first test asks for it, so that tests without a cluster pay nothing.
"""

from __future__ import annotations

import gc
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from tests.support import binaries, chart
from tests.support.controlplane import Cluster, ControlPlane
from tests.support.forked import OPERATOR
from tests.support.kube import Kube
from tests.support.localcloud import LocalCloud, Ports
from tests.support.operator import Operator
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Generator, Iterator

OPERATOR_NAMESPACE = "relay-system"
# Seconds of each transition: long enough to be seen, short enough to wait for.
QUICK = {"placementSeconds": 0.2, "startSeconds": 0.2, "stopSeconds": 0.2}
_LONGEST_FIRST = ("faults", "cluster", "model", "localcloud_client", "chart", "objectstores", "localcloud", "unit")
_LONG_FILES = (
    "cluster/docs/test_page.py",
    "localcloud/http/test_slowest_request.py",
    "model/test_the_protocol.py",
    "localcloud/http/test_schemathesis.py",
)
"""Each keeps a worker busy for minutes: begun late, it would be the last, and the others would wait for it."""
_MODES = (frozenset({"brisk"}), frozenset({"start_operator", "unattended_workspace"}), frozenset({"operator"}))
"""The fixtures that tell under which operator a test runs: the brisk one, one of its own, the shared one."""
ON_CLUSTER = pytest.StashKey[list["Callable[[], None]"]]()
"""What ends the processes that only tests of the cluster need."""
_FILES_ON_CLUSTER = pytest.StashKey[frozenset[Path]]()
settings.register_profile("however busy the machine is", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("however busy the machine is")
session_fixture = pytest_asyncio.fixture(scope="session", loop_scope="session")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --sample SEED`, `pytest --pictures`."""
    parser.addoption("--sample", type=int, default=None, help="one fault plan of each class and kind, by this seed")
    parser.addoption("--pictures", action="store_true", help="pictures of the docs are kept in docs/")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Which fault plans are played, and how to play the same again."""
    seed: int | None = config.getoption("--sample")
    return None if seed is None else f"fault plans: a sample; the same again: make test SEED={seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Which fault plans were derived, or played, and which of them met no call at first."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    told = [(name, text) for report in reports for name, text in report.user_properties]
    for text in (text for name, text in told if name == "fault plans"):
        terminalreporter.write_line(f"fault plans of {text}")
    hollow = [text for name, text in told if name == "hollow fault plans"]
    if hollow:
        terminalreporter.write_line("\n  ".join([f"{len(hollow)} fault plans met no call at first:", *sorted(hollow)]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is loaded to find tests stays: looking for garbage, meanwhile and at the end, costs a third of the CPU."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


class StartOperator(Protocol):
    """Starts an operator for one workspace alone; settings are RELAY_ variables in lower case, without the prefix."""

    async def __call__(self, workspace: Workspace, **settings: str) -> Operator: ...


class SharedOperator:
    """The operator of ordinary scenarios; it rests while a scenario runs one of its own, and starts again as a fork."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    async def ensure_running(self) -> Operator:
        """Starts it where it is not running."""
        if not self.operator.process.running:
            await self.operator.start()
            self.operator.process.program = OPERATOR
        return self.operator


@pytest.fixture(scope="session", autouse=True)
def kubectl_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """kubectl and helm keep what they learn of this run's clusters in a folder of the run, not in the user's home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECACHEDIR", str(tmp_path_factory.mktemp("kubectl")))
        yield


@pytest.fixture(scope="session")
def server_binaries(request: pytest.FixtureRequest) -> Iterator[binaries.ServerBinaries]:
    """The servers' programs; a first build shows its progress in spite of pytest's capturing."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield binaries.server_binaries()
        return
    with capture.global_and_fixture_disabled():
        found = binaries.server_binaries()
    yield found


@session_fixture
async def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """The API server of this run: RELAY_TEST_KUBECONFIG's, else a control plane of its own. Nobody may kill it."""
    folder = tmp_path_factory.mktemp("controlplane")
    given = os.environ.get("RELAY_TEST_KUBECONFIG")
    if given:
        yield Cluster(Path(given), folder)
        return
    plane = await ControlPlane.start(folder, request.getfixturevalue("server_binaries"))
    request.config.stash.setdefault(ON_CLUSTER, []).append(plane.end_now)
    yield plane
    await plane.stop()


@pytest_asyncio.fixture
async def private_controlplane(server_binaries: binaries.ServerBinaries, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A control plane for one test, whose servers it may kill and start again."""
    plane = await ControlPlane.start(tmp_path / "controlplane", server_binaries)
    yield plane
    await plane.stop()


@session_fixture
async def cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    """The local cloud of this run. Nobody may move its clock or change its settings."""
    shared = LocalCloud(tmp_path_factory.mktemp("localcloud"), Ports.free())
    await shared.start()
    await shared.control.settings(**QUICK)
    yield shared
    await shared.process.stop()


@pytest.fixture(scope="session")
def private_cloud_ports() -> Ports:
    """Where private local clouds listen, one after another: the shared operator is told once that it may call them."""
    return Ports.free()


@session_fixture
async def kept_cloud(private_cloud_ports: Ports, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    """The process behind `private_cloud`; it is started when it is first asked for."""
    kept = LocalCloud(tmp_path_factory.mktemp("private"), private_cloud_ports, forks=True)
    yield kept
    await kept.process.kill()


@pytest_asyncio.fixture
async def private_cloud(kept_cloud: LocalCloud) -> LocalCloud:
    """A local cloud for one test, to move its clock, change its settings or kill it. The shared operator may use it."""
    await kept_cloud.freshly_seeded()
    await kept_cloud.control.settings(**QUICK)
    return kept_cloud


@session_fixture
async def operator_kubeconfig(cluster: Cluster) -> Path:
    """CRDs installed, and a kubeconfig that acts as the chart's ServiceAccount with the chart's rights."""
    async with Kube(cluster.kubeconfig) as kube:
        await chart.install_crds(kube)
    return await chart.grant_access(cluster, OPERATOR_NAMESPACE)


@session_fixture
async def shared_operator(
    request: pytest.FixtureRequest,
    operator_kubeconfig: Path,
    cloud: LocalCloud,
    private_cloud_ports: Ports,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[SharedOperator]:
    """The operator of this run, not yet started: ask for `operator`."""
    allowed = (*cloud.ports.urls(), *private_cloud_ports.urls())
    operator = Operator(tmp_path_factory.mktemp("operator"), operator_kubeconfig, OPERATOR_NAMESPACE, allowed)
    request.config.stash.setdefault(ON_CLUSTER, []).insert(0, operator.process.end_now)
    yield SharedOperator(operator)
    await operator.stop()


@pytest_asyncio.fixture
async def operator(shared_operator: SharedOperator) -> Operator:
    """The operator of this run, ready, watching every namespace. Nobody may end it."""
    return await shared_operator.ensure_running()


@pytest_asyncio.fixture
async def kube(cluster: Cluster, operator_kubeconfig: Path) -> AsyncIterator[Kube]:
    """The API server as its administrator, with the CRDs installed."""
    del operator_kubeconfig  # needed only since it installs the CRDs
    async with Kube(cluster.kubeconfig) as connected:
        yield connected


@pytest_asyncio.fixture
async def workspace(
    request: pytest.FixtureRequest, operator: Operator, cloud: LocalCloud, kube: Kube
) -> AsyncIterator[Workspace]:
    """A namespace and an organization with an account, under the shared operator and in the shared local cloud."""
    assert operator.process.running
    own = await Workspace.create(kube, cloud, _label(request))
    yield own
    await own.remove()


@pytest_asyncio.fixture
async def private_cloud_workspace(
    request: pytest.FixtureRequest, operator: Operator, private_cloud: LocalCloud, kube: Kube
) -> AsyncIterator[Workspace]:
    """The same in a private local cloud, whose clock and settings are the test's."""
    assert operator.process.running
    own = await Workspace.create(kube, private_cloud, _label(request))
    yield own
    await own.remove()


@pytest_asyncio.fixture
async def unattended_workspace(
    request: pytest.FixtureRequest, shared_operator: SharedOperator, private_cloud: LocalCloud, kube: Kube
) -> AsyncIterator[Workspace]:
    """A workspace in a private local cloud and no operator at all, until `start_operator` starts one."""
    await shared_operator.operator.stop()
    own = await Workspace.create(kube, private_cloud, _label(request))
    yield own
    await own.remove(attended=False)


@pytest_asyncio.fixture
async def start_operator(
    operator_kubeconfig: Path, shared_operator: SharedOperator, tmp_path: Path
) -> AsyncIterator[StartOperator]:
    """Starts operators that the test may kill; each watches the workspace's namespace alone."""
    started: list[Operator] = []

    async def start(workspace: Workspace, **settings: str) -> Operator:
        await shared_operator.operator.stop()
        folder = tmp_path / f"operator-{len(started)}"
        # Without a Lease, since one killed would keep the next waiting for it; scenarios of leadership ask for one.
        chosen = {"watch_namespaces": workspace.namespace, "leader_election": "false"} | settings
        urls = workspace.cloud.ports.urls()
        operator = Operator(folder, operator_kubeconfig, OPERATOR_NAMESPACE, urls, chosen, program=OPERATOR)
        started.append(operator)
        await operator.start()
        return operator

    yield start
    for operator in started:
        await operator.kill()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Files that need a cluster come first, what waits longest before the rest, and side by side what is under the same
    operator: each worker starts it once."""
    tests = config.rootpath / "tests"

    def room(path: Path) -> int:
        folder = path.relative_to(tests).parts[0] if tests in path.parents else ""
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    def mode(item: pytest.Item) -> int:
        asked = getattr(item, "fixturenames", ())
        return next((rank for rank, fixtures in enumerate(_MODES) if not fixtures.isdisjoint(asked)), len(_MODES))

    of_file: dict[Path, int] = {}
    for item in items:
        of_file[item.path] = min(of_file.get(item.path, len(_MODES)), mode(item))
    on_cluster = frozenset(item.path for item in items if "cluster" in getattr(item, "fixturenames", ()))
    long = {tests / name: rank for rank, name in enumerate(_LONG_FILES)}
    config.stash[_FILES_ON_CLUSTER] = on_cluster
    ranks = {
        path: (path not in on_cluster, long.get(path, len(long)), room(path), rank) for path, rank in of_file.items()
    }
    items.sort(key=lambda item: (ranks[item.path], str(item.path), mode(item)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Behind the last file that needs a cluster, its processes end: those of all workers take a tenth of the CPU idle.

    Only if files come in order, as in `make test`; else another of them may follow.
    """
    torn_down = yield
    needed = item.config.stash[_FILES_ON_CLUSTER]
    in_order = not item.config.getoption("loadscopereorder", True)
    if in_order and nextitem is not None and item.path in needed and nextitem.path not in needed:
        for end in item.config.stash.get(ON_CLUSTER, []):
            end()
    return torn_down


def _label(request: pytest.FixtureRequest) -> str:
    """The test's name as the beginning of a namespace's name."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).removeprefix("test-")[:40].strip("-")
