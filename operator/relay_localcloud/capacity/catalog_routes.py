"""The public catalog (section 4, "Catalog"): what there is, what is free, what it costs. It needs a key, no scope."""

from collections.abc import Sequence

from relay_localcloud.capacity import availability, nodes
from relay_localcloud.capacity.availability import Modes, NodeCapacity
from relay_localcloud.capacity.catalog import CPU_SIZES, GPU_MODELS, LOCATIONS, VM_TEMPLATES
from relay_localcloud.http.principal import Anyone
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.store import Tx
from relay_wire.catalog import GpuAvailabilityList, GpuModelList, LocationList, Pricing, VmTemplateList

router = Router("Catalog")


@router.get("/v1/gpu-models", response_model=GpuModelList, summary="GPU models")
def gpu_models(_: Anyone, __: Tx) -> dict[str, object]:
    """Answers `{items}`; prices are of one GPU."""
    return {"items": [model.shown for model in GPU_MODELS.values()]}


@router.get("/v1/gpu-availability", response_model=GpuAvailabilityList, summary="Free GPUs per model and mode")
def gpu_availability(caller: Anyone, tx: Tx) -> dict[str, object]:
    """Answers `{items: [{gpuModelId, vm, cluster}]}` as the calling organization sees it."""
    items = []
    capacities = availability.by_model(tx.connection, caller.organization_id)
    for model in GPU_MODELS.values():
        modes = capacities.get(model.id, Modes())
        vm = {**_mode(modes.vm, model.vm_tiles), "tileLattice": model.vm_tiles}
        items.append({"gpuModelId": model.id, "vm": vm, "cluster": _mode(modes.cluster, None)})
    return {"items": items}


@router.get("/v1/pricing", response_model=Pricing, summary="GPU and CPU prices")
def pricing(_: Anyone, __: Tx) -> dict[str, object]:
    """Answers `{gpu, cpu}`; a GPU entry is the price of one GPU."""
    gpu = [
        {"gpuModelId": model.id, "name": model.name, "pricePerHourCents": model.price_per_hour_cents}
        for model in GPU_MODELS.values()
    ]
    cpu = [
        {
            "resourceSize": size.resource_size,
            "pricePerHourCents": size.price_per_hour_cents,
            "vcpu": size.vcpu,
            "ramMb": size.ram_mb,
        }
        for size in CPU_SIZES.values()
    ]
    return {"gpu": gpu, "cpu": cpu}


@router.get("/v1/locations", response_model=LocationList, summary="Locations and regions")
def locations(caller: Anyone, tx: Tx) -> dict[str, object]:
    """Answers `{items}`: the catalog's own, then others where there are nodes for the calling organization."""
    places = nodes.places(tx.connection, caller.organization_id)
    items = [{"id": place.id, "name": place.name, "region": place.region} for place in LOCATIONS.values()]
    others = [location for location in sorted(places) if location not in LOCATIONS]
    return {"items": items + [{"id": each, "name": each, "region": places[each]} for each in others]}


@router.get("/v1/vm-templates", response_model=VmTemplateList, summary="VM templates")
def vm_templates(_: Anyone, __: Tx) -> dict[str, object]:
    """Answers `{items}`."""
    items = [
        {
            "id": template.id,
            "name": template.name,
            "description": template.description,
            "imageUrl": template.image_url,
        }
        for template in VM_TEMPLATES.values()
    ]
    return {"items": items}


def _mode(capacities: Sequence[NodeCapacity], tiles: Sequence[int] | None) -> dict[str, object]:
    now = availability.availability(capacities, tiles)
    return {
        "totalGpus": now.total_gpus,
        "freeGpus": now.free_gpus,
        "maxPlaceableGpus": now.max_placeable_gpus,
        "placeableGpuCounts": now.placeable_gpu_counts,
        "spotFreeGpus": now.spot_free_gpus,
        "spotPlaceableGpuCounts": now.spot_placeable_gpu_counts,
        "reservedFreeGpus": now.reserved_free_gpus,
        "nodes": [
            {
                "nodeId": node.node_id,
                "region": node.region,
                "totalGpus": node.total,
                "freeGpus": node.free,
                "spotFreeGpus": node.spot_free,
                "reservedFreeGpus": node.reserved_free,
            }
            for node in capacities
        ],
    }
