"""The VM record: how pods and VMs are answered (section 2, "VM")."""

from urllib.parse import urlsplit

from relay_localcloud.capacity.catalog import GPU_MODELS
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.workloads.workloads import VM, Workload
from relay_wire.pods import PodStatus
from relay_wire.vms import VmStatus

BETA = "beta"
PRODUCTION = "production"


def shown_status(workload: Workload) -> str:
    """The status word; a VM's `deploying` is called `provisioning`."""
    if workload.kind == VM and workload.status is PodStatus.DEPLOYING:
        return VmStatus.PROVISIONING.value
    return workload.status.value


def endpoint_url(label: str, gateway_url: str) -> str:
    """Where the gateway answers for a label; every `*.localhost` name is this machine."""
    gateway = urlsplit(gateway_url)
    return f"{gateway.scheme}://{label}.localhost:{gateway.port}/"


def vm_record(workload: Workload, now: int, gateway_url: str) -> dict[str, object]:
    """Every field of the record that has a value."""
    model = GPU_MODELS.get(workload.gpu_model_id or "")
    per_port = workload.capability_tier == PRODUCTION
    host = f"{workload.http_port}-{workload.label}" if per_port else workload.label
    fields: dict[str, object | None] = {
        "id": workload.id,
        "organizationId": workload.organization_id,
        "name": workload.name,
        "status": shown_status(workload),
        "statusReason": workload.status_reason,
        "gpuModelId": workload.gpu_model_id,
        "gpuModelName": model.name if model else None,
        "gpuCount": workload.gpu_count,
        "endpointUrl": endpoint_url(host, gateway_url),
        "volumeGb": workload.volume_gb,
        "diskSizeGb": workload.disk_size_gb,
        "public": workload.public,
        "createdAt": timestamp(workload.created_at),
        "provisioningStage": _stage(workload, now),
        "resourceSize": workload.resource_size,
        "tier": workload.tier,
        "pricePerHourCents": workload.price_per_hour_cents,
        "serviceType": workload.kind,
        "managedBy": "customer",
        "capabilityTier": workload.capability_tier,
        "computeClass": workload.compute_class,
        "imageUrl": workload.image,
    }
    return {name: value for name, value in fields.items() if value is not None}


def guest_record(workload: Workload) -> dict[str, object]:
    """What the owner of its spot capacity is told of a VM that it ended: nothing that is its organization's own."""
    return {
        "id": workload.id,
        "status": workload.status.value,
        "statusReason": workload.status_reason,
        "tier": workload.tier,
    }


def _stage(workload: Workload, now: int) -> str | None:
    if workload.status is PodStatus.RUNNING:
        return "ready"
    if workload.placed_at is None:
        return None
    return "placing" if now < workload.placed_at else "starting"
