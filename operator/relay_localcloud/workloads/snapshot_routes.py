"""Snapshots (section 2, "Create snapshot"); their paths are assumed."""

from typing import Annotated

from starlette.responses import Response

from relay_localcloud.cloud import CurrentCloud
from relay_localcloud.http.arguments import Path
from relay_localcloud.http.bodies import Body, answer, no_content
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.pages import PageRequest
from relay_localcloud.http.principal import ResourceId, VmReader, VmWriter
from relay_localcloud.http.routing import Router
from relay_localcloud.workloads import snapshots
from relay_localcloud.workloads.workloads import visible
from relay_wire.snapshots import Snapshot, SnapshotCreate, SnapshotPage

router = Router("Snapshots")

SnapshotId = Annotated[str, Path("snapshotId")]


@router.post("/v1/vms/{id}/snapshots/create", response_model=Snapshot, summary="Make a snapshot", openapi_extra=ASSUMED)
async def create_snapshot(
    caller: VmWriter, vm_id: ResourceId, body: Body[SnapshotCreate], cloud: CurrentCloud
) -> Response:
    """Answers it while it is being made; it is `ready` a little later."""
    with cloud.store.transaction() as tx:
        vm = visible(tx, caller, vm_id)
        row = snapshots.begin(tx, vm, body.name)
    return answer(snapshots.shown(row, vm))


@router.get("/v1/vms/{id}/snapshots", response_model=SnapshotPage, summary="List snapshots", openapi_extra=ASSUMED)
async def list_snapshots(caller: VmReader, vm_id: ResourceId, page: PageRequest, cloud: CurrentCloud) -> Response:
    """Answers a page, newest first."""
    listing = f"snapshots of {vm_id}"
    with cloud.store.transaction() as tx:
        vm = visible(tx, caller, vm_id)
        place = page.after(listing, vm.organization_id)
        before = None if place is None else int(str(place[0]))
        rows = snapshots.page_of(tx, vm, before, page.limit + 1)
    shown = page.of(
        listing, vm.organization_id, rows, lambda row: snapshots.shown(row, vm), lambda row: [row["sequence"]]
    )
    return answer(shown)


@router.get(
    "/v1/vms/{id}/snapshots/{snapshotId}", response_model=Snapshot, summary="Get a snapshot", openapi_extra=ASSUMED
)
async def get_snapshot(caller: VmReader, vm_id: ResourceId, snapshot_id: SnapshotId, cloud: CurrentCloud) -> Response:
    """Answers where it is."""
    with cloud.store.transaction() as tx:
        vm = visible(tx, caller, vm_id)
        row = snapshots.row_of(tx, vm, snapshot_id)
    return answer(snapshots.shown(row, vm))


@router.delete(
    "/v1/vms/{id}/snapshots/{snapshotId}", status_code=204, summary="Delete a snapshot", openapi_extra=ASSUMED
)
async def delete_snapshot(
    caller: VmWriter, vm_id: ResourceId, snapshot_id: SnapshotId, cloud: CurrentCloud
) -> Response:
    """Its name is free again."""
    with cloud.store.transaction() as tx:
        snapshots.remove(tx, visible(tx, caller, vm_id), snapshot_id)
    return no_content()
