"""The operator as the user of its image: a number that no passwd entry gives a name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.conftest import OPERATOR_NAMESPACE
from tests.support.manifests import gpu_pod
from tests.support.operator import Operator

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.workspace import Workspace

# A user namespace shows the process that number, while the files of this run stay readable to it.
AS_IN_THE_IMAGE = ("unshare", "--user", "--map-user=65532", "--map-group=65532")


async def test_a_user_without_a_name_runs_it(
    unattended_workspace: Workspace, operator_kubeconfig: Path, tmp_path: Path
) -> None:
    workspace = unattended_workspace
    settings = {"watch_namespaces": workspace.namespace}
    urls = workspace.cloud.ports.urls()
    operator = Operator(
        tmp_path / "operator", operator_kubeconfig, OPERATOR_NAMESPACE, urls, settings, under=AS_IN_THE_IMAGE
    )
    await operator.start()
    try:
        await workspace.apply(gpu_pod())
        await workspace.becomes("GpuPod", "trainer")
        await workspace.kube.delete("GpuPod", "trainer")
        await workspace.is_gone("GpuPod", "trainer")
    finally:
        await operator.kill()
