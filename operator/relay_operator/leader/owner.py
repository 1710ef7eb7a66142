"""The Lease belongs to the operator's ServiceAccount, and goes with it at an uninstall, when no operator is left."""

import logging
from collections.abc import Mapping
from typing import Protocol

from pydantic import JsonValue

from relay_kube.kube import JsonObject, KubeError, ResourceType
from relay_operator.engine.manifests import part
from relay_operator.leader.election import LEASES

REVIEWS = ResourceType("selfsubjectreviews", "authentication.k8s.io")

_log = logging.getLogger(__name__)


class OwnerApi(Protocol):
    """The part of `Kube` that is needed here."""

    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject: ...
    async def patch(
        self, kind: ResourceType, namespace: str | None, name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject: ...


async def own(api: OwnerApi, namespace: str, lease: str) -> None:
    """Once, by the leader. A Lease without an owner is as good to lead with, so a refusal is only told."""
    try:
        owner = await _service_account(api, namespace)
        if owner is not None:
            await api.patch(LEASES, namespace, lease, {"metadata": {"ownerReferences": [owner]}})
    except KubeError as error:
        _log.info("the Lease %s/%s stays after an uninstall: %s", namespace, lease, error)


async def _service_account(api: OwnerApi, namespace: str) -> JsonObject | None:
    """Who asks; None for people, and for one of another namespace: its dependents here would be taken for lost."""
    body: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = part(part(await api.create(REVIEWS, None, body), "status"), "userInfo")
    kind, _, name = str(user.get("username")).rpartition(":")
    if kind != f"system:serviceaccount:{namespace}" or not user.get("uid"):
        return None
    return {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": user["uid"]}
