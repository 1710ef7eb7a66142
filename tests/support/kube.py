"""A small Kubernetes client for tests, independent of the operator's."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import aiohttp

from tests.support.kubeconfig import connection, session_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path
    from types import TracebackType

Manifest = dict[str, Any]
FIELD_MANAGER = "relay-tests"


class KubeError(Exception):
    """The API server refused a request; `status` is the HTTP status, `reason` and `message` are those of its answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


@dataclass(frozen=True)
class Resource:
    """The API path of a kind."""

    prefix: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, name: str = "", subresource: str = "") -> str:
        """Returns the path of an object, or without a name, of its collection; without a namespace, of all of them."""
        inside = f"namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (self.prefix, inside, self.plural, name, subresource) if part)


_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_RELAY = "/apis/gpurelay.dev/v1alpha1"
_THROTTLED_ATTEMPTS = 10
_WRITES = frozenset({"POST", "PUT", "PATCH"})
_DRY_RUN = {"dryRun": "All"}
RESOURCES = {
    "Namespace": Resource("/api/v1", "namespaces", namespaced=False),
    "Node": Resource("/api/v1", "nodes", namespaced=False),
    "Secret": Resource("/api/v1", "secrets"),
    "ConfigMap": Resource("/api/v1", "configmaps"),
    "ResourceQuota": Resource("/api/v1", "resourcequotas"),
    "Service": Resource("/api/v1", "services"),
    "ServiceAccount": Resource("/api/v1", "serviceaccounts"),
    "NetworkPolicy": Resource("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PersistentVolume": Resource("/api/v1", "persistentvolumes", namespaced=False),
    "PersistentVolumeClaim": Resource("/api/v1", "persistentvolumeclaims"),
    "Pod": Resource("/api/v1", "pods"),
    "Event": Resource("/api/v1", "events"),
    "Lease": Resource("/apis/coordination.k8s.io/v1", "leases"),
    "Deployment": Resource("/apis/apps/v1", "deployments"),
    "Role": Resource(_RBAC, "roles"),
    "RoleBinding": Resource(_RBAC, "rolebindings"),
    "ClusterRole": Resource(_RBAC, "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource(_RBAC, "clusterrolebindings", namespaced=False),
    "ValidatingAdmissionPolicy": Resource(_ADMISSION, "validatingadmissionpolicies", namespaced=False),
    "ValidatingAdmissionPolicyBinding": Resource(_ADMISSION, "validatingadmissionpolicybindings", namespaced=False),
    "CustomResourceDefinition": Resource(
        "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False
    ),
    "VirtualMachine": Resource("/apis/kubevirt.io/v1", "virtualmachines"),
    "VirtualMachineInstance": Resource("/apis/kubevirt.io/v1", "virtualmachineinstances"),
    "VolumeSnapshot": Resource("/apis/snapshot.storage.k8s.io/v1", "volumesnapshots"),
    "VolumeImportSource": Resource("/apis/cdi.kubevirt.io/v1beta1", "volumeimportsources"),
    "CloudAccount": Resource(_RELAY, "cloudaccounts"),
    "ClusterCloudAccount": Resource(_RELAY, "clustercloudaccounts", namespaced=False),
    "GpuPod": Resource(_RELAY, "gpupods"),
    "GpuCluster": Resource(_RELAY, "gpuclusters"),
    "GpuVm": Resource(_RELAY, "gpuvms"),
    "SshKey": Resource(_RELAY, "sshkeys"),
    "RegistryCredential": Resource(_RELAY, "registrycredentials"),
    "ApiKey": Resource(_RELAY, "apikeys"),
    "GpuModel": Resource(_RELAY, "gpumodels", namespaced=False),
    "OrganizationMember": Resource(_RELAY, "organizationmembers"),
    "VmSnapshot": Resource(_RELAY, "vmsnapshots"),
    "InferenceBackend": Resource(_RELAY, "inferencebackends"),
    "ServingDeployment": Resource(_RELAY, "servingdeployments"),
    "RunnerPool": Resource(_RELAY, "runnerpools"),
    "ProvisioningToken": Resource(_RELAY, "provisioningtokens"),
    "ProviderNode": Resource(_RELAY, "providernodes"),
    "NodeReservation": Resource(_RELAY, "nodereservations"),
    "InferenceBatch": Resource(_RELAY, "inferencebatches"),
    "InferenceBatchSchedule": Resource(_RELAY, "inferencebatchschedules"),
}


class Kube:
    """Calls an API server as the user of a kubeconfig. Use it as an async context manager, one per event loop.

    `namespace` is the default namespace. Refusals raise KubeError.
    """

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self.written: set[str] = set()
        """The paths of everything that it created or changed."""
        self._session: aiohttp.ClientSession | None = None
        self._ends = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._session = await self._ends.enter_async_context(session_of(connection(self.kubeconfig)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._ends.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        params: dict[str, str] | None = None,
    ) -> Manifest:
        """Makes one request and returns the decoded object; repeats it while the API server throttles (429)."""
        if self._session is None:
            raise RuntimeError("Kube is used outside `async with`")
        data = None if body is None else json.dumps(body)
        if method in _WRITES and "dryRun" not in (params or {}):
            self.written.add(path)
        for _ in range(_THROTTLED_ATTEMPTS):
            async with self._session.request(
                method, path, data=data, params=params, headers={"Content-Type": content_type}
            ) as reply:
                text = await reply.text()
            if reply.status != 429:
                break
            await asyncio.sleep(1)  # as kubectl does: a throttled request was not processed
        if reply.status >= 400:
            raise _refusal(reply.status, text)
        return _decoded(text)

    async def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest:
        """Returns the object; raises KubeError 404 if it does not exist."""
        return await self.call("GET", self._path(kind, name, namespace))

    async def find(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """Returns the object, or None if it does not exist."""
        try:
            return await self.get(kind, name, namespace)
        except KubeError as refused:
            if refused.status == 404:
                return None
            raise

    def looking_at(
        self, kind: str, name: str, namespace: str | None = None
    ) -> Callable[[], Awaitable[Manifest | None]]:
        """Returns a function for `eventually` that finds the object at each call."""
        return lambda: self.find(kind, name, namespace)

    async def list(self, kind: str, namespace: str | None = None, **params: str) -> list[Manifest]:
        """Returns the objects of a namespace, or of all with `namespace=""`; `params` as in `labelSelector="app=x"`."""
        path = RESOURCES[kind].path(self.namespace if namespace is None else namespace)
        items: list[Manifest] = (await self.call("GET", path, params=params))["items"]
        return items

    async def watch(self, kind: str, namespace: str | None = None, **params: str) -> AsyncIterator[Manifest]:
        """Yields watch events `{type, object}`, from now on or after `resourceVersion=...`, until closed."""
        if self._session is None:
            raise RuntimeError("Kube is used outside `async with`")
        path = RESOURCES[kind].path(self.namespace if namespace is None else namespace)
        forever = aiohttp.ClientTimeout(total=None)
        async with self._session.get(path, params={"watch": "true", **params}, timeout=forever) as stream:
            if stream.status >= 400:
                raise _refusal(stream.status, await stream.text())
            async for line in stream.content:
                yield json.loads(line)

    async def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        """Creates the object with POST; a dry run goes as far as the API server's own checks."""
        path = RESOURCES[manifest["kind"]].path(self._namespace_of(manifest))
        return await self.call("POST", path, manifest, params=_DRY_RUN if dry_run else None)

    async def apply(
        self, manifest: Manifest, manager: str = FIELD_MANAGER, *, force: bool = True, dry_run: bool = False
    ) -> Manifest:
        """Applies the manifest (server-side apply) and returns the object; a dry run stores nothing."""
        path = RESOURCES[manifest["kind"]].path(self._namespace_of(manifest), manifest["metadata"]["name"])
        params = {"fieldManager": manager, "force": str(force).lower()} | (_DRY_RUN if dry_run else {})
        return await self.call("PATCH", path, manifest, content_type="application/apply-patch+yaml", params=params)

    async def replace(self, manifest: Manifest) -> Manifest:
        """Replaces the object with PUT, as `kubectl replace` does."""
        path = RESOURCES[manifest["kind"]].path(self._namespace_of(manifest), manifest["metadata"]["name"])
        return await self.call("PUT", path, manifest)

    async def patch(
        self, kind: str, name: str, change: Manifest, namespace: str | None = None, subresource: str = ""
    ) -> Manifest:
        """Applies a JSON merge patch."""
        path = self._path(kind, name, namespace, subresource)
        return await self.call("PATCH", path, change, content_type="application/merge-patch+json")

    async def annotate(
        self, kind: str, name: str, annotations: dict[str, str | None], namespace: str | None = None
    ) -> Manifest:
        """Sets annotations and removes those whose value is None."""
        return await self.patch(kind, name, {"metadata": {"annotations": annotations}}, namespace)

    async def delete(self, kind: str, name: str, namespace: str | None = None, **options: object) -> None:
        """Requests the deletion without waiting for it; does nothing if the object does not exist."""
        try:
            await self.call("DELETE", self._path(kind, name, namespace), options or None)
        except KubeError as refused:
            if refused.status != 404:
                raise

    async def delete_all(self, kind: str, namespace: str | None = None) -> None:
        """Requests the deletion of every object of the kind in the namespace, without waiting for it."""
        await self.call("DELETE", RESOURCES[kind].path(namespace or self.namespace))

    def _path(self, kind: str, name: str, namespace: str | None, subresource: str = "") -> str:
        return RESOURCES[kind].path(namespace or self.namespace, name, subresource)

    def _namespace_of(self, manifest: Manifest) -> str:
        namespace: str = manifest["metadata"].get("namespace", self.namespace)
        return namespace


def _decoded(text: str) -> Manifest:
    answer: Manifest = json.loads(text) if text.startswith("{") else {"message": text}
    return answer


def _refusal(status: int, text: str) -> KubeError:
    answer = _decoded(text)
    return KubeError(status, answer.get("reason", ""), answer.get("message", ""))
