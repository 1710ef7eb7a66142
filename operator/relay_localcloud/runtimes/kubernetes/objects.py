"""Carries out turns on a cluster: creates missing objects, ends the Pod or VM, or deletes the rest. Idempotent."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from relay_kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Refused
from relay_kube.kube import NAMESPACES, PODS, SECRETS, JsonObject, Kube, ResourceType
from relay_localcloud.runtimes.kubernetes.holdings import Standing
from relay_localcloud.runtimes.kubernetes.kubevirt import IMPORT_SOURCES, VIRTUAL_MACHINES
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, is_vm, pull_name_of
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.tenants import Manifest
from relay_localcloud.runtimes.kubernetes.turns import Turn
from relay_localcloud.runtimes.kubernetes.virtual_machines import HALTED

_log = logging.getLogger(__name__)

VOLUMES: Final = ResourceType("persistentvolumeclaims")
ROLE_BINDINGS: Final = ResourceType("rolebindings", "rbac.authorization.k8s.io")
_TYPES: Final = {
    "Namespace": NAMESPACES,
    "RoleBinding": ROLE_BINDINGS,
    "ResourceQuota": ResourceType("resourcequotas"),
    "NetworkPolicy": ResourceType("networkpolicies", "networking.k8s.io"),
    "PersistentVolumeClaim": VOLUMES,
    "Secret": SECRETS,
    "Pod": PODS,
    "VolumeImportSource": IMPORT_SOURCES,
    "VirtualMachine": VIRTUAL_MACHINES,
}
_CHANGED_IN_PLACE: Final = frozenset({"ResourceQuota", "NetworkPolicy", "Secret", "VirtualMachine"})
"""Kinds of objects that are patched if they exist, since they may be outdated; so are the labels of a namespace."""


_INVALID: Final = 422
"""The status of a refusal that is about the object itself."""
TENANT_SECONDS: Final = 60.0
"""How long an organization's namespace, quota and policy are assumed to exist before they are sent again."""


class VolumeLost(Exception):
    """The volume of a holder is gone; nothing was created in its place."""


class Objects:
    """Carries out turns on a cluster; resends an organization's unchanged objects after TENANT_SECONDS or failures."""

    def __init__(self, kube: Kube, instance: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._instance = instance
        self._clock = clock
        self._tenants: dict[str, tuple[Sequence[Manifest], float]] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def carry_out(self, turn: Turn) -> JsonObject | None:
        """Carry out a turn; returns the Pod as the API server has it if it was created, or the VirtualMachine.

        Raises KubeError, and VolumeLost.
        """
        kube = self._kube
        match turn.step:
            case Step.MAKE:
                return await self._make(turn)
            case Step.END if is_vm(turn.name):
                with suppress(NotFound):
                    await kube.patch(VIRTUAL_MACHINES, turn.namespace, turn.name, {"spec": {"runStrategy": HALTED}})
            case Step.END:
                with suppress(Conflict):  # another Pod has its name by now
                    await kube.delete(PODS, turn.namespace, turn.name, uid=turn.uid)
            case Step.SWEEP:
                for kind, name in _left(turn):
                    await kube.delete_labelled(kind, turn.namespace, f"metadata.name={name}", INSTANCE, self._instance)
            case Step.NOTHING:
                pass
        return None

    async def _make(self, turn: Turn) -> JsonObject | None:
        made: JsonObject | None = None
        try:
            await self.ensure_tenant(turn.namespace, turn.tenant)
            for manifest in turn.manifests:
                if turn.holding.had_pod and manifest["kind"] == "PersistentVolumeClaim":
                    await _require_volume(self._kube, turn.namespace, manifest)
                else:
                    made = await _ensure(self._kube, turn.namespace, manifest)
        except KubeError as error:
            if error.status != _INVALID:
                self._tenants.pop(turn.namespace, None)  # its namespace may have been deleted
            raise
        return made

    async def ensure_tenant(self, namespace: str, tenant: Sequence[Manifest]) -> None:
        """Send an organization's objects, its namespace first; others who need them wait for that. Raises KubeError."""
        lock = self._locks.setdefault(namespace, asyncio.Lock())
        async with lock:
            there, since = self._tenants.get(namespace, ((), -math.inf))
            if there == tenant and self._clock() - since < TENANT_SECONDS:
                return
            sent = [await _ensure(self._kube, namespace, manifest) for manifest in tenant]
            await _label(self._kube, sent[0], tenant[0])  # for which the cloud may have got the right just now
            if not there:
                await self._unbind_others(namespace, tenant)
            self._tenants[namespace] = tenant, self._clock()

    async def _unbind_others(self, namespace: str, tenant: Sequence[Manifest]) -> None:
        """Take the rights in a namespace from the accounts that this cloud had before."""
        for own in (manifest for manifest in tenant if manifest["kind"] == "RoleBinding"):
            others = f"metadata.name!={_metadata(own)['name']}"
            try:
                await self._kube.delete_labelled(ROLE_BINDINGS, namespace, others, INSTANCE, self._instance)
            except Refused as error:
                _log.warning("%s: role bindings of former accounts of this cloud stay: %s", namespace, error)


def _left(turn: Turn) -> Iterator[tuple[ResourceType, str]]:
    """What is to be deleted once nothing runs: all that a restart does not need, and at the end the rest."""
    ends = turn.holding.standing is Standing.END
    yield SECRETS, turn.name
    if is_vm(turn.name):
        yield IMPORT_SOURCES, turn.name
        if ends:
            yield VIRTUAL_MACHINES, turn.name
    else:
        yield SECRETS, pull_name_of(turn.holding.id)
    if ends:
        yield VOLUMES, turn.name


async def _ensure(kube: Kube, namespace: str, manifest: Manifest) -> JsonObject | None:
    """Create an object, or patch an existing one of _CHANGED_IN_PLACE; None if it stays as it is.

    An existing namespace is returned as it is. Raises Refused if it does not belong to this cloud.
    """
    kind, name = str(manifest["kind"]), _metadata(manifest)["name"]
    resource = _TYPES[kind]
    where = namespace if resource.namespaced else None
    try:
        return await kube.create(resource, where, manifest)
    except AlreadyExists:
        if kind == "Namespace":
            there = await kube.get(resource, where, str(name))
            _require_own(there, manifest)
            return there
        if kind in _CHANGED_IN_PLACE:
            return await kube.patch(resource, where, str(name), manifest)
    return None


async def _require_volume(kube: Kube, namespace: str, manifest: Manifest) -> None:
    """Raise VolumeLost if a claim does not exist: the cloud may create claims, and so try to, but not read them."""
    with suppress(AlreadyExists):
        await kube.try_create(VOLUMES, namespace, manifest)
        raise VolumeLost


async def _label(kube: Kube, there: JsonObject | None, namespace: Manifest) -> None:
    """Give a namespace from before the labels that it would be created with now."""
    if there is not None and not _labels(namespace).items() <= _labels(there).items():
        await kube.patch(NAMESPACES, None, str(_metadata(namespace)["name"]), namespace)


def _require_own(there: JsonObject, manifest: Manifest) -> None:
    if _labels(there).get(INSTANCE) != _labels(manifest)[INSTANCE]:
        name = _metadata(manifest)["name"]
        raise Refused(
            409,
            "NotOurs",
            f"the namespace {name} does not belong to this cloud: the cluster's administrator must delete it",
        )


def _labels(manifest: JsonObject) -> JsonObject:
    labels = _metadata(manifest).get("labels")
    return labels if isinstance(labels, dict) else {}


def _metadata(manifest: JsonObject) -> JsonObject:
    metadata = manifest["metadata"]
    assert isinstance(metadata, dict), "every object has it"
    return metadata
