"""Builders of manifests: the test passes what matters to it, the rest has usual values."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Manifest

API_VERSION = "gpurelay.dev/v1alpha1"
SECRET, SECRET_KEY = "relay-api-key", "api-key"


def api_key_secret(api_key: str, name: str = SECRET) -> Manifest:
    """Returns the Secret that a CloudAccount refers to."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {SECRET_KEY: api_key}}


def cloud_account(base_url: str, inference_url: str, name: str = "default", **spec: object) -> Manifest:
    """Returns a CloudAccount whose key is in the Secret of `api_key_secret`."""
    return relay_object(
        "CloudAccount",
        name,
        baseUrl=base_url,
        inferenceUrl=inference_url,
        apiKeySecretRef={"name": SECRET, "key": SECRET_KEY},
        **spec,
    )


def gpu_pod(name: str = "trainer", *, model: str = "l40s", count: int = 1, **spec: object) -> Manifest:
    """Returns a GpuPod, by default with one GPU; further fields of its spec as keywords."""
    fields = {"image": "pytorch/pytorch:2.9.0", "gpu": {"modelId": model, "count": count}} | spec
    return relay_object("GpuPod", name, **fields)


def gpu_vm(name: str = "box", *, model: str = "l40s", count: int = 1, **spec: object) -> Manifest:
    """Returns a GpuVm, by default with one GPU; further fields of its spec as keywords."""
    fields: dict[str, object] = {"image": "ubuntu:24.04", "gpu": {"modelId": model, "count": count}}
    return relay_object("GpuVm", name, **(fields | spec))


def gpu_cluster(
    name: str = "llm", *, replicas: int = 2, model: str = "l40s", count: int = 1, **spec: object
) -> Manifest:
    """Returns a GpuCluster, by default two replicas with one GPU each; further fields of its spec as keywords."""
    fields: dict[str, object] = {
        "image": "vllm/vllm-openai:latest",
        "replicas": replicas,
        "gpu": {"modelId": model, "count": count},
        "containerPort": 8000,
    }
    return relay_object("GpuCluster", name, **(fields | spec))


def relay_object(kind: str, name: str, **spec: object) -> Manifest:
    """Returns an object of the operator's group; fields that are None are left out."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {field: value for field, value in spec.items() if value is not None},
    }


def with_spec(manifest: Manifest, **spec: object) -> Manifest:
    """Returns the object with other fields of its spec."""
    return manifest | {"spec": manifest["spec"] | spec}


def adopting(manifest: Manifest, cloud_id: str) -> Manifest:
    """Returns the object with the annotation that takes over what exists in the cloud."""
    return manifest | {"metadata": manifest["metadata"] | {"annotations": {"gpurelay.dev/adopt-id": cloud_id}}}


def condition(item: Manifest | None, kind: str) -> Manifest:
    """Returns the condition of that type; empty if the object or the condition is absent."""
    conditions = ((item or {}).get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})


def ready(item: Manifest | None) -> bool:
    """Whether the object is Ready for its current spec."""
    return condition(item, "Ready").get("status") == "True" and up_to_date(item)


def ready_with_another(cloud_id: str) -> Callable[[Manifest | None], bool]:
    """Whether the object is Ready with another resource than this."""
    return lambda item: item is not None and ready(item) and item["status"].get("id", cloud_id) != cloud_id


def stalled(item: Manifest | None) -> str:
    """Returns the reason of Stalled; empty if the object is not Stalled for its current spec."""
    found = condition(item, "Stalled")
    reason: str = found.get("reason", "")
    return reason if found.get("status") == "True" and up_to_date(item) else ""


def tells(reason: str, text: str = "") -> Callable[[Manifest | None], bool]:
    """Ready, whether True or False, has this reason, and this text in its message."""

    def told(item: Manifest | None) -> bool:
        about = condition(item, "Ready")
        return about.get("reason") == reason and text in about["message"]

    return told


def stalls(reason: str) -> Callable[[Manifest | None], bool]:
    """Stalled is True for the current spec, and has this reason."""
    return lambda item: stalled(item) == reason


def in_state(state: str) -> Callable[[Manifest | None], bool]:
    """The object is Ready, and its resource in this state of the cloud."""
    return lambda item: ready(item) and (item or {})["status"].get("state") == state


def up_to_date(item: Manifest | None) -> bool:
    """Whether the status is about the current spec (`observedGeneration`)."""
    status = (item or {}).get("status") or {}
    return item is not None and status.get("observedGeneration") == item["metadata"]["generation"]
