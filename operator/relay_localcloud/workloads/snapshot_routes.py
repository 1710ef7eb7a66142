"""Snapshots (section 2, "Create snapshot"); their paths are assumed."""

from functools import partial
from typing import Annotated

from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ResourceId, VmReader, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_localcloud.workloads import snapshots
from relay_localcloud.workloads.workloads import visible
from relay_wire.snapshots import Snapshot, SnapshotCreate, SnapshotPage

router = Router("Snapshots")

SnapshotId = Annotated[str, Path("snapshotId")]


@router.post("/v1/vms/{id}/snapshots/create", summary="Make a snapshot", openapi_extra=ASSUMED)
def create_snapshot(caller: VmWriter, vm_id: ResourceId, body: Body[SnapshotCreate], tx: Tx) -> Snapshot:
    """Answers it while it is being made; it is `ready` a little later."""
    vm = visible(tx, caller, vm_id)
    row = snapshots.begin(tx, vm, body.name)
    return snapshots.shown(row, vm)


@router.get("/v1/vms/{id}/snapshots", response_model=SnapshotPage, summary="List snapshots", openapi_extra=ASSUMED)
def list_snapshots(caller: VmReader, vm_id: ResourceId, page: PageRequest, tx: Tx) -> dict[str, object]:
    """Answers a page, newest first."""
    vm = visible(tx, caller, vm_id)
    rows = partial(snapshots.page_of, tx, vm)
    return page.newest(f"snapshots of {vm_id}", vm.organization_id, rows, lambda row: snapshots.shown(row, vm))


@router.get("/v1/vms/{id}/snapshots/{snapshotId}", summary="Get a snapshot", openapi_extra=ASSUMED)
def get_snapshot(caller: VmReader, vm_id: ResourceId, snapshot_id: SnapshotId, tx: Tx) -> Snapshot:
    """Answers where it is."""
    vm = visible(tx, caller, vm_id)
    row = snapshots.row_of(tx, vm, snapshot_id)
    return snapshots.shown(row, vm)


@router.delete(
    "/v1/vms/{id}/snapshots/{snapshotId}", status_code=204, summary="Delete a snapshot", openapi_extra=ASSUMED
)
def delete_snapshot(caller: VmWriter, vm_id: ResourceId, snapshot_id: SnapshotId, tx: Tx) -> None:
    """Its name is free again."""
    snapshots.remove(tx, visible(tx, caller, vm_id), snapshot_id)
