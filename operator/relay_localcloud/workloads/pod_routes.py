"""Pods (section 2, "Pod"; section 4, "VMs and pods"). Reads and actions are those of VMs: `vm_routes.py`."""

from relay_localcloud.capacity import catalog, nodes
from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB, GPU_MODELS, GpuModel
from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.capacity.placement import Demand, NodeRoom
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.faults import quotes
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.principal import VmReader, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.workloads import admission, container
from relay_localcloud.workloads.records import vm_record
from relay_localcloud.workloads.ssh_keys import is_public_key
from relay_localcloud.workloads.workloads import POD, Workload
from relay_wire.pods import PodCapacityList, PodCreate
from relay_wire.vms import VmRecord

router = Router("VMs and pods")

MOST_GPUS = 8  # of one pod (section 8)


@router.post("/v1/pods", response_model=VmRecord, summary="Create a pod")
def create_pod(
    caller: VmWriter, body: Body[PodCreate], factor: PriceFactor, cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers the pod's VM record. All its GPUs are on one node, held from here on; billing begins with `running`."""
    return vm_record(make_pod(tx, caller.organization_id, body, factor), tx.now, cloud.gateway_url)


def make_pod(tx: Tx, organization_id: str, body: PodCreate, factor: float = 1.0) -> Workload:
    """Create a pod from its body, at the catalog's price times a factor; ApiError as the operation answers it."""
    require_offered(tx, Noun.POD)
    _check(body)
    admission.require_free_name(tx, organization_id, POD, body.name)
    model, room = _place(tx, organization_id, body)
    return admission.create(
        tx,
        body,
        organization_id,
        room,
        body.gpu_count,
        gpu_model_id=model.id,
        price_per_hour_cents=quotes.locked(model.price_per_hour_cents * body.gpu_count, factor),
        image=body.image,
        http_port=body.http_port,
        volume_gb=body.volume_gb,
        disk_size_gb=DEFAULT_DISK_GB,
        resource_size=f"gpu-{body.gpu_count}x",
        tier="standard",
        capability_tier="standard",
    )


@router.get("/v1/pods/capacity", response_model=PodCapacityList, summary="What pods can have now")
def pod_capacity(caller: VmReader, tx: Tx) -> dict[str, object]:
    """Answers `{items}`: per GPU model the free GPUs of all nodes, the largest single allocation, the rate per GPU."""
    free = nodes.free_by_model(tx.connection, caller.organization_id)
    models = [model for model in GPU_MODELS.values() if model.in_containers]
    return {"items": [_capacity(model, *free.get(model.id, (0, 0))) for model in models]}


def _check(body: PodCreate) -> None:
    if body.compute_class == "interruptible":
        raise ApiError(
            400, "computeClass: interruptible is retired; on_demand is the only class sold.", "COMPUTE_CLASS_RETIRED"
        )
    container.check_image("image", body.image)
    container.check_variables("envVars", body.env_vars or {})
    container.check_list("sshKeys", body.ssh_keys, container.MOST_SSH_KEYS)
    for position, key in enumerate(body.ssh_keys or ()):
        if not is_public_key(key):
            raise ApiError(
                400, f"sshKeys.{position}: this is not an OpenSSH public key, such as `ssh-ed25519 AAAA...`."
            )


def _place(tx: Tx, organization_id: str, body: PodCreate) -> tuple[GpuModel, NodeRoom]:
    def demand_of(model: GpuModel) -> Demand:
        return Demand(organization_id, model.id, body.gpu_count, body.shm_size_gb or 0)

    if body.gpu_model_id is None:
        return admission.cheapest_with_room(tx, demand_of)
    model = catalog.gpu_model(body.gpu_model_id)
    return model, admission.room_for(tx, demand_of(model))


def _capacity(model: GpuModel, free_units: int, max_gpu_count: int) -> dict[str, object]:
    free = {"freeUnits": free_units, "maxGpuCount": min(max_gpu_count, MOST_GPUS)}
    return {"gpuModelId": model.id, "name": model.name, **free, "pricePerHourCents": model.price_per_hour_cents}
