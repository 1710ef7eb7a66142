"""Turns the cloud's catalog into the status of each object. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relay_operator.api.gpumodel import (
    CATALOG,
    MOST,
    MOST_COUNTS,
    Capacity,
    CpuSize,
    GpuModelStatus,
    Location,
    VmTemplate,
)
from relay_operator.engine.fit_schema import INT64
from relay_wire import catalog as wire

MOST_MODELS: Final = 500
"""The most objects, however many models the cloud lists."""
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ID, _TEXT = 253, 1024


@dataclass(frozen=True, slots=True)
class Listing:
    """The cloud's answers in one reading of its catalog."""

    source: str
    """The account that read it."""
    models: Sequence[wire.GpuModel]
    availability: Sequence[wire.GpuAvailability]
    pricing: wire.Pricing
    locations: Sequence[wire.Location] = ()
    templates: Sequence[wire.VmTemplate] = ()


def statuses(listing: Listing) -> Mapping[str, GpuModelStatus]:
    """The status of each object by its name, without conditions."""
    free = {one.gpu_model_id: one for one in listing.availability}
    prices = {one.gpu_model_id: one.price_per_hour_cents for one in listing.pricing.gpu}
    named = [model for model in listing.models if _NAME.fullmatch(model.id)][:MOST_MODELS]
    made = {model.id: _model(model, free.get(model.id), prices.get(model.id)) for model in named}
    unlisted = sorted({model.id[:_ID] for model in listing.models} - made.keys())[:MOST]
    # A model with this name shares the object.
    whole = made.get(CATALOG, GpuModelStatus()).model_copy(
        update=_of_no_model(listing) | {"unlisted": unlisted or None}
    )
    return {**made, CATALOG: whole}


def _model(model: wire.GpuModel, availability: wire.GpuAvailability | None, price: int | None) -> GpuModelStatus:
    cluster = _capacity(availability.cluster) if availability is not None else None
    vm = _capacity(availability.vm) if availability is not None else None
    ways = [way for way in (cluster, vm) if way is not None]
    return GpuModelStatus(
        name=_cut(model.name),
        memory_gb=_bounded(model.memory_gb),
        price_per_hour_cents=_bounded(model.price_per_hour_cents if price is None else price),
        free_gpus=max((way.free_gpus for way in ways), default=None),
        max_placeable_gpus=max((way.max_placeable_gpus for way in ways), default=None),
        spot_free_gpus=max((way.spot_free_gpus for way in ways if way.spot_free_gpus is not None), default=None),
        cluster=cluster,
        vm=vm,
    )


def _capacity(mode: wire.ClassAvailability | None) -> Capacity | None:
    if mode is None:
        return None
    return Capacity(
        total_gpus=_whole(mode.total_gpus),
        free_gpus=_whole(mode.free_gpus),
        max_placeable_gpus=_whole(mode.max_placeable_gpus),
        placeable_gpu_counts=[_whole(count) for count in mode.placeable_gpu_counts[:MOST_COUNTS]],
        spot_free_gpus=_bounded(mode.spot_free_gpus),
    )


def _of_no_model(listing: Listing) -> dict[str, object]:
    sizes = [
        CpuSize(
            resource_size=size.resource_size[:_ID],
            vcpu=_whole(size.vcpu),
            ram_mb=_whole(size.ram_mb),
            price_per_hour_cents=_whole(size.price_per_hour_cents),
        )
        for size in listing.pricing.cpu[:MOST]
        if size.price_per_hour_cents is not None
    ]
    templates = [
        VmTemplate(
            id=one.id[:_ID], name=_cut(one.name), description=_cut(one.description), image_url=_cut(one.image_url)
        )
        for one in listing.templates[:MOST]
    ]
    locations = [
        Location(id=one.id[:_ID], name=_cut(one.name), region=_cut(one.region)) for one in listing.locations[:MOST]
    ]
    return {"cpu_sizes": sizes, "templates": templates, "locations": locations}


def _cut(text: str | None) -> str | None:
    return text[:_TEXT] if text is not None else None


def _whole(number: int) -> int:
    """The number within 64 bits: the API server refuses a status with any other."""
    return max(-INT64, min(number, INT64))


def _bounded(number: int | None) -> int | None:
    return None if number is None else _whole(number)
