"""How `kubectl wait`, Helm, Flux and Argo CD read an object: the rules of kstatus for custom resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.support.kube import Manifest

Kstatus = Literal["Terminating", "InProgress", "Failed", "Current"]


def kstatus(item: Manifest) -> Kstatus:
    """What kstatus computes; an object without a word of its own counts as Current, as it does there."""
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
