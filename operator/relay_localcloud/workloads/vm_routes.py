"""VMs, and what VMs and pods share: the record, stop, restart, terminate, visibility (section 4)."""

from functools import partial
from typing import Any, Final

from relay_localcloud.capacity import catalog, claims, nodes
from relay_localcloud.capacity.catalog import DEFAULT_DISK_GB, DISK_IMAGES
from relay_localcloud.capacity.offers import require_offered
from relay_localcloud.capacity.placement import SPOT, Demand
from relay_localcloud.capacity.reservations import RESERVATIONS, ReservationStatus
from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.faults import quotes
from relay_localcloud.faults.quotes import PriceFactor
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import OrganizationId, Principal, ResourceId, VmReader, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.money import billing
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.tooling import registry_credentials
from relay_localcloud.workloads import admission, container, moves, ssh_keys, workloads
from relay_localcloud.workloads.records import BETA, PRODUCTION, guest_record, vm_record
from relay_localcloud.workloads.transitions import Trigger
from relay_localcloud.workloads.workloads import VM, WORKLOADS, Workload
from relay_wire.pods import PodStatus
from relay_wire.vms import CreatedResource, EndedSpotVm, Visibility, VmCreate, VmPage, VmRecord

router = Router("VMs and pods")
list_router = Router("VMs and pods")

DEFAULT_PORT: Final = 80

_OF_CONTAINERS: Final = (
    *("container_command", "env_vars", "health_check_path", "health_check_port", "health_checks"),
    *("kernel_modules", "privileged", "registry_credential_id"),
)
"""Fields of a create that only containers can have, or that act on the cloud's nodes."""
_BY_OWNER: Final = "It was terminated by the owner of the spot capacity that it ran on."


@router.post("/v1/orgs/{orgId}/vms/create", response_model=CreatedResource, summary="Create a VM")
def create_vm(
    _: VmWriter, organization_id: OrganizationId, body: Body[VmCreate], factor: PriceFactor, cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers `{id, name, status}`. Without `gpuModelId` it is a CPU VM of a `resourceSize`."""
    vm = make_vm(tx, cloud.vault, organization_id, body, factor)
    return {"id": vm.id, "name": vm.name, "status": vm.shown_status}


def make_vm(tx: Tx, vault: Vault, organization_id: str, body: VmCreate, factor: float = 1.0) -> Workload:
    """Create a VM from its body, at the catalog's price times a factor; ApiError as the operation answers it."""
    require_offered(tx, Noun.VM)
    tier = body.tier or "standard"
    admission.require_disk(body.disk_size_gb)
    admission.require_count("gpuCount", body.gpu_count)
    admission.require_tier(tier, admission.VM_TIERS)
    container.check(body)
    container.check_list("sshKeyIds", body.ssh_key_ids, container.MOST_SSH_KEYS)
    body = container.from_template(body)
    _require_bootable(tx, body)
    ssh_keys.require_known(tx, organization_id, body.ssh_key_ids or ())
    registry_credentials.require_usable(tx, vault, organization_id, body.registry_credential_id)
    admission.require_free_name(tx, organization_id, VM, body.name)
    admission.require_regions(tx, organization_id, body)
    if body.gpu_model_id is None:
        vm = _create_cpu_vm(tx, organization_id, body, tier, factor)
    else:
        vm = _create_gpu_vm(tx, organization_id, body, tier, factor)
    ssh_keys.attach(tx, vm.id, body.ssh_key_ids or ())
    return vm


@list_router.get("/v1/orgs/{orgId}/vms", response_model=VmPage, summary="List live VMs and pods", openapi_extra=ASSUMED)
def list_vms(
    _: VmReader, organization_id: OrganizationId, page: PageRequest, cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Answers VM records, newest first."""
    rows = partial(WORKLOADS.page, tx, organization_id=organization_id, terminated_at=None)
    return page.newest("vms", organization_id, rows, lambda row: vm_record(row, tx.now, cloud.gateway_url))


@router.get("/v1/vms/{id}", response_model=VmRecord, summary="Get a VM or pod")
def get_vm(caller: VmReader, workload_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Answers the record; a terminated one for 24 hours."""
    workload = workloads.visible(tx, caller, workload_id)
    return vm_record(workload, tx.now, cloud.gateway_url)


@router.post("/v1/vms/{id}/stop", response_model=VmRecord, summary="Stop a VM or pod")
def stop_vm(caller: VmWriter, workload_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Billing ends at once, the GPUs are free when it is stopped, the volume stays."""
    return _act(tx, caller, workload_id, cloud, Trigger.STOP)


@router.post("/v1/vms/{id}/restart", response_model=VmRecord, summary="Restart or start a VM or pod")
def restart_vm(caller: VmWriter, workload_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """A running one is recreated in place; a stopped or failed one starts on its volume's node, or 409 says why not."""
    return _act(tx, caller, workload_id, cloud, Trigger.RESTART)


@router.post("/v1/vms/{id}/terminate", response_model=VmRecord | EndedSpotVm, summary="Terminate a VM or pod")
def terminate_vm(caller: VmWriter, workload_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Ends it with its volume, at once and for good; a second time changes nothing.

    Who lends the units of a spot VM may end it as well, and is answered `{id, status, statusReason, tier}` alone.
    """
    guest = _end_guest(tx, caller, workload_id)
    return guest_record(guest) if guest else _act(tx, caller, workload_id, cloud, Trigger.TERMINATE)


@router.post("/v1/vms/{id}/visibility", response_model=VmRecord, summary="Make the endpoint public or private")
def set_visibility(
    caller: VmWriter, workload_id: ResourceId, body: Body[Visibility], cloud: CurrentCloud, tx: Tx
) -> dict[str, object]:
    """Takes `{"public": bool}`, which is assumed."""
    workload = workloads.visible(tx, caller, workload_id)
    if workload.status is PodStatus.TERMINATED:
        raise ApiError(409, "It is terminated.")
    WORKLOADS.change(tx, workload.id, public=body.public)
    return vm_record(workloads.visible(tx, caller, workload_id), tx.now, cloud.gateway_url)


def _act(tx: Tx, caller: Principal, workload_id: str, cloud: CurrentCloud, trigger: Trigger) -> dict[str, object]:
    workload = moves.apply(tx, workloads.visible(tx, caller, workload_id), trigger)
    return vm_record(workload, tx.now, cloud.gateway_url)


def _require_bootable(tx: Tx, body: VmCreate) -> None:
    """Refuse with 422 what real VMs cannot have, since they boot disk images; simulated ones have everything."""
    if not tx.runtime.reports_by_itself:
        return
    image = body.image_url or ""
    if image not in DISK_IMAGES:
        raise ApiError(422, f"imageUrl: there is no {image!r} for VMs; there are {', '.join(DISK_IMAGES)}.")
    for field in _OF_CONTAINERS:
        if getattr(body, field):
            name = VmCreate.model_fields[field].alias
            raise ApiError(422, f"{name}: the VMs of this cloud boot a disk image and run no container: use cloudInit.")


def _create_cpu_vm(tx: Tx, organization_id: str, body: VmCreate, tier: str, factor: float) -> Workload:
    if body.gpu_count:
        raise ApiError(422, "gpuCount: it needs a gpuModelId.")
    if body.node_id is not None:
        admission.visible_node(tx, body.node_id, organization_id, spot=tier == SPOT)
        raise ApiError(422, "nodeId: it needs a gpuModelId; CPU VMs are not placed on nodes.")
    size = catalog.cpu_size(body.resource_size)
    billing.require_funds(tx, organization_id)
    moves.require_cpu_slot(tx)
    price = quotes.locked(size.price_per_hour_cents, factor)
    fields = _fields(body, tier, price_per_hour_cents=price, resource_size=size.resource_size)
    return admission.create(tx, body, organization_id, None, **fields)


def _create_gpu_vm(tx: Tx, organization_id: str, body: VmCreate, tier: str, factor: float) -> Workload:
    model = catalog.gpu_model(body.gpu_model_id or "", for_vm=True)
    gpu_count = 1 if body.gpu_count is None else body.gpu_count
    if gpu_count < 1:
        raise ApiError(400, "gpuCount: a VM with a gpuModelId has at least one.")
    if gpu_count not in model.vm_tiles:
        counts = ", ".join(map(str, model.vm_tiles))
        raise ApiError(422, f"gpuCount: VMs with {model.id} have one of {counts}.", "GPU_COUNT_NOT_PLACEABLE")
    size = admission.gpu_size(body.resource_size, gpu_count)
    demand = Demand(
        organization_id,
        model.id,
        gpu_count,
        preferred_regions=tuple(body.preferred_regions or ()),
        allow_fallback=body.allow_fallback is not False,
        spot=tier == SPOT,
    )
    room = admission.room_for(tx, demand) if body.node_id is None else admission.room_on(tx, body.node_id, demand)
    price = quotes.locked(model.price_per_hour_cents * gpu_count, factor)
    fields = _fields(body, tier, price_per_hour_cents=price, resource_size=size)
    return admission.create(tx, body, organization_id, room, gpu_count, **fields)


def _fields(body: VmCreate, tier: str, **priced: object) -> dict[str, Any]:
    return {
        "gpu_model_id": body.gpu_model_id,
        "image": body.image_url,
        "http_port": body.container_port or DEFAULT_PORT,
        "volume_gb": 0,
        "disk_size_gb": DEFAULT_DISK_GB if body.disk_size_gb is None else body.disk_size_gb,
        "tier": tier,
        "capability_tier": PRODUCTION if tier == PRODUCTION else BETA,
        **priced,
    }


def _end_guest(tx: Tx, caller: Principal, workload_id: str) -> Workload | None:
    """Terminate another organization's spot VM on units that the caller lends; None if the caller may not end it.

    The caller must own the node, or be an organization that manages the reservation. ApiError 403 by role.
    """
    workload = workloads.find(tx, workload_id)
    if workload is None or workload.tier != SPOT or _may_write(caller, workload.organization_id):
        return None
    lenders = [each for each in _lenders(tx, workload) if caller.belongs_to(each)]
    if not lenders:
        return None
    caller.admit(next((each for each in lenders if _may_write(caller, each)), lenders[0]), "VM", workload_id)
    return moves.apply(tx, workload, Trigger.RECLAIMED, _BY_OWNER)


def _may_write(caller: Principal, organization_id: str) -> bool:
    return caller.belongs_to(organization_id) and caller.holds("vms:write", organization_id)


def _lenders(tx: Tx, workload: Workload) -> list[str]:
    held = claims.CLAIMS.all(tx, holder_id=workload.id)
    if not held:
        return []
    node_id, units = held[0].node_id, {claim.unit for claim in held}
    lending = [
        reservation
        for reservation in RESERVATIONS.all(tx, node_id=node_id)
        if reservation.status is ReservationStatus.RELEASED and not units.isdisjoint(reservation.units)
    ]
    managing = [manager for reservation in lending for manager in reservation.managing_org_ids]
    return [*(nodes.owners(tx, nodes.get(tx, node_id)) if lending else ()), *managing]
