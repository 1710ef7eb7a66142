"""The isolated environment of a test: a namespace, an organization of the local cloud, and its CloudAccount."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kstatus import kstatus
from tests.support.kube import RESOURCES, Kube, KubeError, Manifest
from tests.support.kubectl import Kubectl
from tests.support.manifests import api_key_secret, cloud_account, ready
from tests.support.watched import becomes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tests.support.localcloud import LocalCloud, Organization

_PROVIDERS = ("ProvisioningToken", "ProviderNode")
_ASSUMED = ("VmSnapshot", "InferenceBackend", "NodeReservation", "ServingDeployment")
_RECORDS = ("SshKey", "RegistryCredential", "ApiKey", "OrganizationMember", "RunnerPool", *_PROVIDERS, *_ASSUMED)
_WORKLOADS = ("InferenceBatchSchedule", "GpuPod", "GpuVm", "GpuCluster", "InferenceBatch", *_RECORDS)
# Deleting a namespace takes some sixty calls, more than most tests make: only worth it in a cluster that is not ours.
NAMESPACES_END = "RELAY_TEST_KUBECONFIG" in os.environ


class Workspace:
    """The namespace and organization of one test; `kube` and `kubectl` act as administrator in the namespace."""

    def __init__(self, kube: Kube, cloud: LocalCloud, organization: Organization) -> None:
        self.kube = kube
        self.kubectl = Kubectl(kube.kubeconfig, kube.namespace)
        self.namespace = kube.namespace
        self.cloud = cloud
        self.organization = organization
        self.is_kubes_alone = False
        """Whether all that is in the namespace was written by `kube`, and `kubectl` if that ran."""

    @classmethod
    async def create(cls, kube: Kube, cloud: LocalCloud, label: str) -> Workspace:
        """Creates the namespace, the organization, the Secret `relay-api-key` and the CloudAccount `default`.

        The namespace gets a random name that starts with `label`, and becomes the default of `kube`.
        """
        kube.namespace = f"{label}-{secrets.token_hex(3)}"
        organization = await cloud.control.create_organization(kube.namespace)
        await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": kube.namespace}})
        await kube.create(api_key_secret(organization.api_key))
        await kube.create(cloud_account(cloud.management_url, cloud.inference_url))
        workspace = cls(kube, cloud, organization)
        workspace.is_kubes_alone = True
        return workspace

    async def apply(self, manifest: Manifest) -> Manifest:
        """Applies the manifest (server-side apply); returns the stored object."""
        return await self.kube.apply(manifest)

    async def becomes(
        self,
        kind: str,
        name: str,
        wanted: Callable[[Manifest | None], object] = ready,
        *,
        within: float = PATIENCE_SECONDS,
    ) -> Manifest:
        """Waits until `wanted` accepts the object (by default: Ready) and returns it.

        Asserts that kstatus and Argo CD agree on its status.
        """
        what = f"{kind} {name}: {getattr(wanted, '__name__', 'the condition')}"
        item = await becomes(self.kube, kind, name, wanted, within=within, what=what)
        if item is not None and item["apiVersion"].startswith("gpurelay.dev/"):
            kstatus(item)
        return item or {}

    async def obey(self, message: str) -> None:
        """Runs the command that ends a message of the operator (after `run: `), as if pasted into a shell."""
        await self.kubectl.shell(message.partition("run: ")[2])

    async def is_gone(self, kind: str, name: str, *, within: float = PATIENCE_SECONDS) -> None:
        """Waits until the object does not exist."""
        what = f"{kind} {name} is gone"
        await becomes(self.kube, kind, name, lambda item: item is None, within=within, what=what)

    async def remove(self, *, attended: bool = True, namespace_too: bool = NAMESPACES_END) -> None:
        """Deletes everything in the namespace; without an operator that attends to it, removes all finalizers at once.

        Then empties the organization's balance, so that the cloud stops what was left in it. Raises AssertionError once
        all that is done, if the operator did not let go of an object.
        """
        made = {kind for kind in self._may_have() if await self.kube.list(kind)}
        if "InferenceBatchSchedule" in made:  # it may create a batch meanwhile
            made.add("InferenceBatch")
        for kind in made:
            await self.kube.delete_all(kind)
        held: AssertionError | None = None
        if attended:
            try:
                await eventually(lambda: self._left(made), lambda left: not left, what="the operator lets go of all")
            except AssertionError as error:
                held = error
        await self.kube.delete_all("CloudAccount")
        if namespace_too:
            await self.kube.delete("Namespace", self.namespace)
        await self._release_by_force({"CloudAccount", *made} if held or not attended else {"CloudAccount"})
        if self.cloud.process.running:
            # Frees the GPUs of what was orphaned or abandoned for other tests: without funds, the cloud stops it.
            await self.cloud.control.change_organization(self.organization.id, balanceCents=-1)
        if held is not None:
            raise held

    async def force_away(self, kind: str, name: str) -> None:
        """Deletes the object and takes its finalizers away, unless the operator was faster; waits until it is gone."""
        await self.kube.delete(kind, name)
        await self._drop_finalizers(kind, name)
        await self.is_gone(kind, name)

    def _may_have(self) -> list[str]:
        """The kinds of which somebody may have created an object; each costs a list."""
        if not self.is_kubes_alone or self.kubectl.ran:
            return list(_WORKLOADS)
        paths = {kind: RESOURCES[kind].path(self.namespace) for kind in _WORKLOADS}
        return [kind for kind, path in paths.items() if any(made.startswith(path) for made in self.kube.written)]

    async def _left(self, kinds: Iterable[str]) -> list[tuple[str, str]]:
        """Returns kind and name of each remaining object of these kinds."""
        return [(kind, item["metadata"]["name"]) for kind in kinds for item in await self.kube.list(kind)]

    async def _release_by_force(self, kinds: Iterable[str]) -> None:
        for kind, name in await self._left(kinds):
            await self._drop_finalizers(kind, name)

    async def _drop_finalizers(self, kind: str, name: str) -> None:
        try:
            await self.kube.patch(kind, name, {"metadata": {"finalizers": None}})
        except KubeError as refused:
            if refused.status != 404:
                raise
