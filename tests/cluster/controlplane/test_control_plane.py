"""The control plane itself keeps what the other scenarios lean on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.support.controlplane import ControlPlane
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kube import Kube, KubeError
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.binaries import ServerBinaries


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plane(
    server_binaries: ServerBinaries, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ControlPlane]:
    """For these tests alone, which may kill its servers."""
    own = await ControlPlane.start(tmp_path_factory.mktemp("controlplane"), server_binaries)
    yield own
    await own.stop()


def _config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"kept": "yes"}}


async def test_the_api_server_alone_is_killed_and_comes_back_with_its_data(plane: ControlPlane) -> None:
    async with Kube(plane.kubeconfig) as kube:
        await kube.create(_config_map("before"))
        await plane.apiserver.kill()
        assert plane.etcd.running
        assert plane.controller_manager.running
        await plane.apiserver.start()
        assert (await kube.get("ConfigMap", "before"))["data"] == {"kept": "yes"}


async def test_a_service_account_has_the_rights_of_its_role_and_no_others(plane: ControlPlane) -> None:
    async with Kube(plane.kubeconfig) as admin:
        await admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}})
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create"]}]
        await admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": {"name": "reader"},
                "rules": rules,
            }
        )
        await admin.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"name": "reader"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
                "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
            }
        )
        kubeconfig = await plane.service_account_kubeconfig("default", "reader")
        async with Kube(kubeconfig) as reader:

            async def may_list() -> bool:
                try:
                    await reader.list("ConfigMap")
                except KubeError:
                    return False
                return True

            await eventually(may_list, what="the role is in force")
            with pytest.raises(KubeError, match="403"):
                await reader.list("Secret")

            start = plane.audit.position()
            await reader.create(_config_map("counted"))

        async def writes() -> list[tuple[str, str, str, int]]:
            found = plane.writes_by("system:serviceaccount:default:reader", after=start)
            return [(one.verb, one.resource, one.name, one.status) for one in found]

        assert await eventually(writes) == [("create", "configmaps", "counted", 201)]


async def test_a_deleted_namespace_goes_away_with_what_is_in_it(plane: ControlPlane) -> None:
    kubectl = Kubectl(plane.kubeconfig, "short-lived")
    await kubectl("create", "namespace", "short-lived")
    await kubectl("create", "configmap", "inside")
    await kubectl("delete", "namespace", "short-lived", f"--timeout={PATIENCE_SECONDS:g}s")
    ran = await kubectl.attempt("get", "configmap", "inside")
    assert ran.exit_code == 1
    assert "not found" in ran.stderr
