"""An operator that never waits long, for scenarios that are about waiting: `brisk`, and corners under it."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.conftest import OPERATOR_NAMESPACE, SharedOperator
from tests.support.forked import OPERATOR
from tests.support.manifests import SECRET_KEY, api_key_secret, relay_object
from tests.support.operator import Operator
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Generator, Iterator
    from pathlib import Path

    from tests.support.kube import Kube
    from tests.support.localcloud import LocalCloud, Ports

BRISK = {
    "leader_election": "false",
    "poll_transition_seconds": "0.3",
    "poll_settled_seconds": "1",
    "secret_reread_seconds": "1",
    "backoff_initial_seconds": "0.2",
    "backoff_max_seconds": "2",
    "absence_seconds": "0.5",
    "newborn_seconds": "2",
    "assumed_kinds": "VmSnapshot InferenceBackend NodeReservation ServingDeployment",
}
_RUNNING = pytest.StashKey[Operator]()


@pytest.fixture(scope="session")
def batch_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What batches of the brisk operator may read and write with file: URLs."""
    return tmp_path_factory.mktemp("batches")


@pytest.fixture(scope="session")
def brisk_operator(
    operator_kubeconfig: Path,
    cloud: LocalCloud,
    private_cloud_ports: Ports,
    batch_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Operator]:
    """Not yet started: ask for `brisk`."""
    allowed = (*cloud.ports.urls(), *private_cloud_ports.urls())
    reach = {"file_roots": str(batch_folder), "allowed_private_networks": "127.0.0.0/8"}
    folder = tmp_path_factory.mktemp("brisk")
    operator = Operator(folder, operator_kubeconfig, OPERATOR_NAMESPACE, allowed, BRISK | reach, program=OPERATOR)
    yield operator
    operator.process.end_now()


@pytest_asyncio.fixture
async def brisk(request: pytest.FixtureRequest, shared_operator: SharedOperator, brisk_operator: Operator) -> Operator:
    """The brisk operator, ready, watching every namespace; it runs on while the next test asks for it too."""
    await shared_operator.operator.stop()
    if not brisk_operator.process.running:
        await brisk_operator.start()
        request.config.stash[_RUNNING] = brisk_operator
    return brisk_operator


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Two operators must never look after the same objects: the brisk one ends where the next test wants another."""
    yield
    operator = item.config.stash.get(_RUNNING, None)
    if operator is not None and "brisk" not in getattr(nextitem, "fixturenames", ()):
        operator.process.end_now()


@pytest_asyncio.fixture
async def brisk_workspace(
    request: pytest.FixtureRequest, brisk: Operator, cloud: LocalCloud, kube: Kube
) -> AsyncIterator[Workspace]:
    """A namespace and an organization with an account, under the brisk operator and in the shared local cloud."""
    assert brisk.process.running
    own = await Workspace.create(kube, cloud, _label(request))
    yield own
    await own.remove()


@pytest_asyncio.fixture
async def brisk_private_workspace(
    request: pytest.FixtureRequest, brisk: Operator, private_cloud: LocalCloud, kube: Kube
) -> AsyncIterator[Workspace]:
    """The same in a private local cloud, whose clock, nodes and settings are the test's."""
    assert brisk.process.running
    own = await Workspace.create(kube, private_cloud, _label(request))
    yield own
    await own.remove()


def _label(request: pytest.FixtureRequest) -> str:
    """The test's name as the beginning of a namespace's name."""
    return re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).removeprefix("test-")[:40].strip("-")


@pytest_asyncio.fixture
async def shared_account(brisk_workspace: Workspace) -> AsyncIterator[str]:
    """The name of a ClusterCloudAccount that admits namespaces with the label `team=ml`."""
    name = f"shared-{secrets.token_hex(3)}"
    secret = api_key_secret(brisk_workspace.organization.api_key, name)
    secret["metadata"]["namespace"] = OPERATOR_NAMESPACE
    await brisk_workspace.kube.apply(secret)
    await brisk_workspace.kube.apply(
        relay_object(
            "ClusterCloudAccount",
            name,
            baseUrl=brisk_workspace.cloud.management_url,
            inferenceUrl=brisk_workspace.cloud.inference_url,
            apiKeySecretRef={"name": name, "key": SECRET_KEY, "namespace": OPERATOR_NAMESPACE},
            allowedNamespaces={"matchLabels": {"team": "ml"}},
        )
    )
    yield name
    for kind in ("GpuPod", "GpuCluster"):
        await brisk_workspace.kube.delete_all(kind)
    await brisk_workspace.kube.delete("ClusterCloudAccount", name)
    await brisk_workspace.is_gone("ClusterCloudAccount", name)
    await brisk_workspace.kube.delete("Secret", name, OPERATOR_NAMESPACE)
