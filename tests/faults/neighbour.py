"""Another cluster with its own, undisturbed operator, whose accounts belong to the same organizations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.scenarios import ENV_KEY, ENV_SECRET
from tests.faults.stage import OPERATOR_NAMESPACE, QUICK
from tests.support import chart
from tests.support.controlplane import ControlPlane
from tests.support.kube import Kube
from tests.support.manifests import api_key_secret, cloud_account, ready
from tests.support.operator import Operator
from tests.support.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.support.binaries import ServerBinaries
    from tests.support.kube import Manifest
    from tests.support.localcloud import LocalCloud, Organization


def _told(accounts: Iterable[Manifest]) -> list[Manifest]:
    """Returns what accounts report as nobody's."""
    statuses = [one.get("status", {}) for one in accounts]
    return [told for status in statuses for what in ("orphans", "unclaimed") for told in status.get(what) or ()]


@dataclass(frozen=True)
class _Tenant:
    """An object in the neighbour's cluster and its id in the cloud."""

    namespace: str
    organization: Organization
    kind: str
    name: str
    id: str


class Neighbour:
    """The other cluster; it starts with its first tenant and has one tenant at a time."""

    def __init__(self, folder: Path, binaries: ServerBinaries, cloud: LocalCloud) -> None:
        self._folder, self._binaries, self._cloud = folder, binaries, cloud
        self._plane: ControlPlane | None = None
        self._operator: Operator | None = None
        self._tenant: _Tenant | None = None

    async def moves_in(self, namespace: str, organization: Organization, manifest: Manifest) -> None:
        """Applies the same object in the neighbour's cluster and waits until it is Ready."""
        if self._plane is None:
            self._plane = await self._start()
        async with Kube(self._plane.kubeconfig, namespace) as kube:
            await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ENV_SECRET}}
            await kube.create(api_key_secret(organization.api_key))
            await kube.create({**secret, "stringData": {ENV_KEY: "the neighbour's"}})
            workspace = Workspace(kube, self._cloud, organization)
            await workspace.apply(cloud_account(*self._cloud.ports.urls()))
            await workspace.apply(manifest)
            kind, name = manifest["kind"], manifest["metadata"]["name"]
            made = await workspace.becomes(kind, name)
        self._tenant = _Tenant(namespace, organization, kind, name, made["status"]["id"])

    async def is_unharmed(self, accounts: Iterable[Manifest]) -> None:
        """Asserts that the tenant's resource still runs and that no account reports resources of the other side."""
        if self._plane is None or self._tenant is None:
            return
        tenant = self._tenant
        async with Kube(self._plane.kubeconfig, tenant.namespace) as kube:
            item = await kube.get(tenant.kind, tenant.name)
            theirs = await kube.list("CloudAccount")
        state = (await tenant.organization.cluster(tenant.id))["status"]
        assert item["status"]["id"] == tenant.id, f"the neighbour has another: {item['status']['id']}, not {tenant.id}"
        assert ready(item), f"the neighbour's is {state}: {item['status']['conditions']}"
        # A leader that was frozen may report for a moment, as an orphan, what its successor ended meanwhile.
        told = [*_told(theirs), *(one for one in _told(accounts) if one["id"] == tenant.id)]
        assert not told, f"the operator takes the other installation's for its own: {told}"

    async def moves_out(self) -> None:
        """Deletes everything of the tenant's."""
        if self._plane is None or self._tenant is None:
            return
        async with Kube(self._plane.kubeconfig, self._tenant.namespace) as kube:
            await Workspace(kube, self._cloud, self._tenant.organization).remove()
        self._tenant = None

    async def end(self) -> None:
        """Ends the cluster if it was started."""
        if self._operator is not None:
            await self._operator.kill()
        if self._plane is not None:
            await self._plane.stop()

    def end_now(self) -> None:
        """Ends the cluster from code that cannot await."""
        if self._operator is not None:
            self._operator.process.end_now()
        if self._plane is not None:
            self._plane.end_now()

    async def _start(self) -> ControlPlane:
        plane = await ControlPlane.start(self._folder / "controlplane", self._binaries)
        async with Kube(plane.kubeconfig) as kube:
            await chart.install_crds(kube)
        acting = await chart.grant_access(plane, OPERATOR_NAMESPACE)
        self._operator = Operator(self._folder, acting, OPERATOR_NAMESPACE, self._cloud.ports.urls(), QUICK)
        await self._operator.start()
        return plane
