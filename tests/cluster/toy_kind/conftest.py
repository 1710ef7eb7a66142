"""An operator that knows the toy, under the chart's rights and those that the toy's CRD asks for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest_asyncio

from relay_operator.crds import custom_resource_definition
from tests.cluster.conftest import BRISK
from tests.cluster.toy_kind.toy import KIND
from tests.conftest import OPERATOR_NAMESPACE
from tests.support import kube as api
from tests.support.chart import RELEASE
from tests.support.eventually import eventually
from tests.support.kube import KubeError
from tests.support.operator import Operator
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    import pytest

    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

_UNDER = ("env", f"PYTHONPATH={REPOSITORY}", sys.executable, "-m", "tests.cluster.toy_kind.run")
_RULES = [
    {"apiGroups": ["gpurelay.dev"], "resources": ["toys"], "verbs": ["get", "list", "watch", "patch", "delete"]},
    {"apiGroups": ["gpurelay.dev"], "resources": ["toys/status"], "verbs": ["patch"]},
]


@pytest_asyncio.fixture
async def toys(unattended_workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workspace]:
    """A workspace in which toys can be applied."""
    workspace = unattended_workspace
    monkeypatch.setitem(api.RESOURCES, "Toy", api.Resource("/apis/gpurelay.dev/v1alpha1", "toys"))
    await install_crd(workspace)
    binding: Manifest = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "toys"}}
    await workspace.kube.apply(binding | {"kind": "ClusterRole", "rules": _RULES})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "toys"}
    who = {"kind": "ServiceAccount", "name": RELEASE, "namespace": OPERATOR_NAMESPACE}
    await workspace.kube.apply(binding | {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [who]})
    yield workspace
    for toy in await workspace.kube.list("Toy"):
        await workspace.kube.patch("Toy", toy["metadata"]["name"], {"metadata": {"finalizers": None}})
    await delete_crd(workspace)


async def install_crd(workspace: Workspace) -> None:
    """Returns once toys are served."""
    await workspace.kube.apply(custom_resource_definition(KIND.definition))
    await eventually(lambda: _listed(workspace), what="toys are served")


async def delete_crd(workspace: Workspace) -> None:
    """Returns once the CRD is gone, hence all toys."""
    name = "toys.gpurelay.dev"
    await workspace.kube.delete("CustomResourceDefinition", name)
    look = workspace.kube.looking_at("CustomResourceDefinition", name)
    await eventually(look, lambda found: found is None, what=f"{name} is gone")


async def _listed(workspace: Workspace) -> bool:
    try:
        await workspace.kube.list("Toy")
    except KubeError:
        return False
    return True


@pytest_asyncio.fixture
async def operator(toys: Workspace, operator_kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Operator]:
    """Running; the test may kill it and start it again."""
    urls, settings = (
        toys.cloud.ports.urls(),
        BRISK | {"watch_namespaces": toys.namespace, "absence_after_unknown_seconds": "1"},
    )
    own = Operator(tmp_path, operator_kubeconfig, OPERATOR_NAMESPACE, urls, settings, _UNDER)
    await own.start()
    yield own
    await own.kill()
