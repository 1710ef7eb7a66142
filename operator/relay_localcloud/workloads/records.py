"""The VM record: how answers show pods and VMs (section 2, "VM")."""

from urllib.parse import urlsplit

from relay_localcloud.capacity.catalog import GPU_MODELS
from relay_localcloud.kernel.rows import shown
from relay_localcloud.workloads.workloads import Workload
from relay_wire.pods import PodStatus

BETA = "beta"
PRODUCTION = "production"


def endpoint_url(label: str, gateway_url: str) -> str:
    """The URL at which the gateway answers for a label."""
    gateway = urlsplit(gateway_url)
    return f"{gateway.scheme}://{label}.{gateway.netloc}/"


def vm_record(workload: Workload, now: int, gateway_url: str) -> dict[str, object]:
    """All fields of the record that have a value."""
    model = GPU_MODELS.get(workload.gpu_model_id or "")
    per_port = workload.capability_tier == PRODUCTION
    host = f"{workload.http_port}-{workload.label}" if per_port else workload.label
    fields = {
        **shown(workload, "id", "organization_id", "name"),
        "status": workload.shown_status,
        **shown(workload, "status_reason", "gpu_model_id"),
        "gpuModelName": model.name if model else None,
        "gpuCount": workload.gpu_count,
        "endpointUrl": endpoint_url(host, gateway_url),
        **shown(workload, "volume_gb", "disk_size_gb", "public", "created_at"),
        "provisioningStage": _stage(workload, now),
        **shown(workload, "resource_size", "tier", "price_per_hour_cents"),
        "serviceType": workload.kind,
        "managedBy": "customer",
        **shown(workload, "capability_tier", "compute_class"),
        "imageUrl": workload.image,
    }
    return {name: value for name, value in fields.items() if value is not None}


def guest_record(workload: Workload) -> dict[str, object]:
    """What the owner of spot capacity may see of a VM that it ended: nothing that belongs to the VM's organization."""
    return shown(workload, "id", "status", "status_reason", "tier")


def _stage(workload: Workload, now: int) -> str | None:
    if workload.status is PodStatus.RUNNING:
        return "ready"
    if workload.placed_at is None:
        return None
    return "placing" if now < workload.placed_at else "starting"
