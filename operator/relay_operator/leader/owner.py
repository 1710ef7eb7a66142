"""Makes the operator's ServiceAccount own the Lease, so that an uninstall, after which no operator runs, removes it."""

import logging

from relay_kube.errors import KubeError
from relay_kube.kube import JsonObject, ResourceType
from relay_operator.engine.manifests import part
from relay_operator.leader.election import LEASES, LeaseApi

REVIEWS = ResourceType("selfsubjectreviews", "authentication.k8s.io")

_log = logging.getLogger(__name__)


async def own(api: LeaseApi, namespace: str, lease: str) -> None:
    """Set the owner once, as the leader. A Lease without an owner works as well, so a refusal is only logged."""
    try:
        if (owner := await _service_account(api, namespace)) is not None:
            await api.patch(LEASES, namespace, lease, {"metadata": {"ownerReferences": [owner]}})
    except KubeError as error:
        _log.info("the Lease %s/%s stays after an uninstall: %s", namespace, lease, error)


async def _service_account(api: LeaseApi, namespace: str) -> JsonObject | None:
    """The caller's ServiceAccount; None for people, and for one of another namespace, whose dependents here would be
    garbage-collected.
    """
    body: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user = part(part(await api.create(REVIEWS, None, body), "status"), "userInfo")
    kind, _, name = str(user.get("username")).rpartition(":")
    if kind != f"system:serviceaccount:{namespace}" or not user.get("uid"):
        return None
    return {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": user["uid"]}
