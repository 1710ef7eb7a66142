"""The status of an object for `kubectl wait`, Helm, Flux and Argo CD: kstatus' rules for custom resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tests.support.argo import Health, argo_health, is_shipped
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.support.kube import Manifest

Kstatus = Literal["Terminating", "InProgress", "Failed", "Current"]

_IN_ARGO: dict[Kstatus, Health] = {
    "Terminating": "Progressing",
    "InProgress": "Progressing",
    "Failed": "Degraded",
    "Current": "Healthy",
}


def kstatus(item: Manifest) -> Kstatus:
    """Returns the status that kstatus computes; asserts that Argo CD's health agrees with it."""
    found = _computed(item)
    if is_shipped(item):
        health, _ = argo_health(item)
        assert health == in_argo(item, found), f"kstatus reads {found}, Argo CD {health}: {item}"
    return found


def in_argo(item: Manifest, computed: Kstatus) -> Health:
    """Returns the health that Argo CD should show: as `computed`, except Suspended for a paused or suspended object."""
    held = any(condition(item, name).get("status") == "True" for name in ("Paused", "Suspended"))
    moves = computed in ("Terminating", "Failed") or not _was_seen(item)
    going = condition(item, "Reconciling").get("status") == "True"
    return "Suspended" if held and not moves and not going else _IN_ARGO[computed]


def _was_seen(item: Manifest) -> bool:
    seen: bool = (item.get("status") or {}).get("observedGeneration") == item["metadata"]["generation"]
    return seen


def _computed(item: Manifest) -> Kstatus:
    """Applies kstatus' rules.

    An object without any status counts as Current; ours always have one, since `observedGeneration` defaults to -1.
    """
    metadata, status = item["metadata"], item.get("status") or {}
    if "deletionTimestamp" in metadata:
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    if condition(item, "Reconciling").get("status") == "True":
        return "InProgress"
    if condition(item, "Stalled").get("status") == "True":
        return "Failed"
    return "InProgress" if condition(item, "Ready").get("status", "True") != "True" else "Current"
