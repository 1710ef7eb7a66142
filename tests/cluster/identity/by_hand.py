"""What people do by hand that could confuse whose a resource is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.manifests import api_key_secret, cloud_account

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.workspace import Workspace


async def copy(kube: Kube, item: Manifest, name: str, **spec: Any) -> None:
    """Copies an object as `paused_copy` does, and then lets the copy go on."""
    await paused_copy(kube, item, name, **spec)
    await kube.annotate(item["kind"], name, {"gpurelay.dev/paused": None})


async def paused_copy(kube: Kube, item: Manifest, name: str, **spec: Any) -> None:
    """Copies an object with all that it says, its status too, but paused; `spec` replaces fields."""
    kind, metadata = item["kind"], item["metadata"]
    annotations = metadata["annotations"] | {"gpurelay.dev/paused": "true"}
    kept = {"name": name, "annotations": annotations, "finalizers": metadata["finalizers"]}
    await kube.create({"apiVersion": item["apiVersion"], "kind": kind, "metadata": kept, "spec": item["spec"] | spec})
    await kube.patch(kind, name, {"status": item["status"]}, subresource="status")


async def recreate_account(workspace: Workspace, api_key: str) -> None:
    """Forces the account away, with all that it knew, and creates it again with this key."""
    kube, cloud = workspace.kube, workspace.cloud
    await kube.delete("CloudAccount", "default")
    await kube.patch("CloudAccount", "default", {"metadata": {"finalizers": None}})
    await workspace.is_gone("CloudAccount", "default")
    await kube.apply(api_key_secret(api_key))
    await kube.create(cloud_account(cloud.management_url, cloud.inference_url))


def has_its_own(item: Manifest | None) -> bool:
    """Whether the object's status records what was created for this very object."""
    identity = ((item or {}).get("status") or {}).get("identity") or {}
    return bool(identity) and identity["uid"] == (item or {})["metadata"]["uid"]
