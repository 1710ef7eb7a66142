"""The public catalog (section 4, "Catalog"): what exists, what is free, what it costs. It needs a key, but no scope."""

from collections.abc import Sequence

from relay_localcloud.capacity import availability, nodes
from relay_localcloud.capacity.availability import Modes, NodeCapacity
from relay_localcloud.capacity.catalog import CPU_SIZES, GPU_MODELS, LOCATIONS, SHOWN_OF_MODEL, VM_TEMPLATES, Location
from relay_localcloud.http.principal import Anyone
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.rows import shown
from relay_localcloud.kernel.store import Tx
from relay_localcloud.runtimes.runtime import Noun
from relay_wire.catalog import GpuAvailabilityList, GpuModelList, LocationList, Pricing, VmTemplateList

router = Router("Catalog")


@router.get("/v1/gpu-models", response_model=GpuModelList, summary="GPU models")
async def gpu_models(_: Anyone) -> dict[str, object]:
    """Answers `{items}`; prices are of one GPU."""
    return {"items": [shown(model, *SHOWN_OF_MODEL) for model in GPU_MODELS.values()]}


@router.get("/v1/gpu-availability", response_model=GpuAvailabilityList, summary="Free GPUs per model and mode")
def gpu_availability(caller: Anyone, tx: Tx) -> dict[str, object]:
    """Answers `{items: [{gpuModelId, vm, cluster}]}` as the caller sees it; a mode that is not offered has none."""
    offers_vms, offers_clusters = (tx.runtime.lacks(noun) is None for noun in (Noun.VM, Noun.CLUSTER))
    items = []
    capacities = availability.by_model(tx.connection, caller.organization_id)
    for model in GPU_MODELS.values():
        modes = capacities.get(model.id, Modes())
        vm = _mode(modes.vm if offers_vms and model.vm_tiles else (), model.vm_tiles)
        cluster = _mode(modes.cluster if offers_clusters and model.in_containers else (), None)
        items.append({"gpuModelId": model.id, "vm": {**vm, "tileLattice": model.vm_tiles}, "cluster": cluster})
    return {"items": items}


@router.get("/v1/pricing", response_model=Pricing, summary="GPU and CPU prices")
async def pricing(_: Anyone) -> dict[str, object]:
    """Answers `{gpu, cpu}`; a GPU entry is the price of one GPU."""
    gpu = [
        {"gpuModelId": model.id, "name": model.name, "pricePerHourCents": model.price_per_hour_cents}
        for model in GPU_MODELS.values()
    ]
    return {"gpu": gpu, "cpu": [shown(size) for size in CPU_SIZES.values()]}


@router.get("/v1/locations", response_model=LocationList, summary="Locations and regions")
def locations(caller: Anyone, tx: Tx) -> dict[str, object]:
    """Answers `{items}`: the catalog's own, then others that have nodes for the calling organization."""
    places = nodes.places(tx.connection, caller.organization_id)
    others = [Location(place, place, places[place]) for place in sorted(places) if place not in LOCATIONS]
    return {"items": [shown(place) for place in (*LOCATIONS.values(), *others)]}


@router.get("/v1/vm-templates", response_model=VmTemplateList, summary="VM templates")
async def vm_templates(_: Anyone) -> dict[str, object]:
    """Answers `{items}`."""
    return {"items": [shown(template) for template in VM_TEMPLATES.values()]}


def _mode(capacities: Sequence[NodeCapacity], tiles: Sequence[int] | None) -> dict[str, object]:
    now = availability.availability(capacities, tiles)
    return {**shown(now), "nodes": [shown(node) for node in capacities]}
