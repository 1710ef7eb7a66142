"""From what the cloud lists to what each object tells."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic import JsonValue

from relay_kube.kube import JsonObject
from relay_operator.api.conditions import Reason
from relay_operator.api.gpumodel import CATALOG, DEFINITION, MOST
from relay_operator.catalog.changes import Make, Remove, Tell, Trouble, to_make, to_remove, to_tell
from relay_operator.catalog.listing import MOST_MODELS, Listing, statuses
from relay_operator.crds.definitions import object_schema
from relay_operator.engine.status import merge_patch
from relay_wire.catalog import (
    ClassAvailability,
    CpuPrice,
    GpuAvailability,
    GpuModel,
    GpuPrice,
    Location,
    Pricing,
    VmTemplate,
)
from tests.unit.engine.structural import problems

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
GONE = Trouble(Reason.ACCOUNT_MISSING, "the CloudAccount/team/default does not exist")


def capacity(free: int, largest: int, spot: int | None = None) -> ClassAvailability:
    return ClassAvailability(
        total_gpus=16, free_gpus=free, max_placeable_gpus=largest, placeable_gpu_counts=[1], spot_free_gpus=spot
    )


def listing(*ids: str, free: int = 13, models: list[GpuModel] | None = None, availability: bool = True) -> Listing:
    return Listing(
        source="CloudAccount/team/default",
        models=[GpuModel(id=one, name=one.upper(), memory_gb=80) for one in ids] if models is None else models,
        availability=[
            GpuAvailability(gpu_model_id=one, vm=capacity(free - 1, 8), cluster=capacity(free, 5, 2))
            for one in ids
            if availability
        ],
        pricing=Pricing(
            gpu=[GpuPrice(gpu_model_id=one, price_per_hour_cents=249) for one in ids],
            cpu=[CpuPrice(resource_size="small", price_per_hour_cents=3, vcpu=2, ram_mb=4096)],
        ),
        locations=[Location(id="fra1", name="Frankfurt", region="eu")],
        templates=[VmTemplate(id="ubuntu", name="Ubuntu", description="x" * 5000)],
    )


def stored(found: Listing, now: datetime = NOW) -> dict[str, JsonObject]:
    """The objects as the API server has them once all was written."""
    names = [change.name for change in to_make({}, found)]
    objects: dict[str, JsonObject] = {
        name: {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "status": {"observedGeneration": -1}}
        for name in names
    }
    return after(objects, to_tell(objects, found, now))


def after(objects: Mapping[str, JsonObject], changes: list[Tell]) -> dict[str, JsonObject]:
    patches = {change.name: change.patch for change in changes}
    return {name: {**raw, "status": patched(raw["status"], patches.get(name, {}))} for name, raw in objects.items()}


def patched(target: JsonValue, patch: JsonValue | Mapping[str, JsonValue]) -> JsonValue:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    before = target if isinstance(target, dict) else {}
    kept = {name: value for name, value in before.items() if name not in patch}
    return kept | {name: patched(before.get(name), value) for name, value in patch.items() if value is not None}


def says(raw: JsonObject, condition: str) -> Mapping[str, JsonValue]:
    status = raw["status"]
    assert isinstance(status, dict)
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    found = [one for one in conditions if isinstance(one, dict) and one["type"] == condition]
    return found[0] if found else {}


def test_a_model_tells_the_better_of_both_ways_to_have_it_and_each_of_them() -> None:
    status = statuses(listing("h100"))["h100"]
    assert (status.name, status.memory_gb, status.price_per_hour_cents) == ("H100", 80, 249)
    assert (status.free_gpus, status.max_placeable_gpus, status.spot_free_gpus) == (13, 8, 2)
    assert status.vm is not None
    assert status.cluster is not None
    assert (status.vm.free_gpus, status.cluster.max_placeable_gpus) == (12, 5)


def test_a_model_of_which_no_availability_or_price_is_known_tells_none() -> None:
    bare = Listing("x", [GpuModel(id="h100", price_per_hour_cents=200)], [], Pricing())
    status = statuses(bare)["h100"]
    assert (status.free_gpus, status.vm, status.cluster) == (None, None, None)
    assert status.price_per_hour_cents == 200


def test_what_has_an_odd_price_tells_none() -> None:
    pricing = Pricing.model_validate(
        {
            "gpu": [{"gpuModelId": "h100", "pricePerHourCents": -1}],
            "cpu": [{"resourceSize": "small", "pricePerHourCents": -1, "vcpu": 2, "ramMb": 4096}],
        }
    )
    found = statuses(Listing("x", [GpuModel(id="h100")], [], pricing))
    assert (found["h100"].price_per_hour_cents, found[CATALOG].cpu_sizes) == (None, [])


def test_what_is_of_no_model_is_in_the_object_catalog() -> None:
    whole = statuses(listing("h100"))[CATALOG]
    assert whole.cpu_sizes is not None
    assert whole.locations is not None
    assert whole.templates is not None
    assert [size.resource_size for size in whole.cpu_sizes] == ["small"]
    assert [place.region for place in whole.locations] == ["eu"]
    assert len(whole.templates[0].description or "") == 1024
    assert whole.free_gpus is None


def test_a_model_that_is_called_catalog_has_both_in_its_object() -> None:
    whole = statuses(listing(CATALOG))[CATALOG]
    assert (whole.free_gpus, whole.cpu_sizes is not None) == (13, True)


def test_a_model_that_no_object_can_be_named_after_is_told_of() -> None:
    found = statuses(listing("h100", "RTX 4090", "-", "a" * 254, "a/b"))
    assert set(found) == {"h100", CATALOG}
    assert found[CATALOG].unlisted == ["-", "RTX 4090", "a/b", "a" * 253]


def test_however_much_the_cloud_lists_objects_have_bounds() -> None:
    found = statuses(listing(*(f"m{number}" for number in range(MOST_MODELS + 400))))
    assert len(found) == MOST_MODELS + 1
    assert len(found[CATALOG].unlisted or ()) == MOST


def test_what_is_written_is_what_the_schema_takes() -> None:
    for raw in stored(listing("h100", "RTX 4090")).values():
        assert list(problems(object_schema(DEFINITION), {"spec": {}, "status": raw["status"]})) == []


def test_nothing_is_written_if_nothing_changed_whatever_the_time() -> None:
    objects = stored(listing("h100", "a100"))
    later = NOW + timedelta(hours=1)
    assert to_tell(objects, listing("h100", "a100"), later) == []
    assert to_make(objects, listing("h100", "a100")) == []
    assert to_remove(objects, listing("h100", "a100")) == []


def test_a_free_count_that_changed_is_written_alone() -> None:
    objects = stored(listing("h100"))
    (told,) = to_tell(objects, listing("h100", free=9), NOW)
    assert told == Tell("h100", {"freeGpus": 9, "cluster": {"freeGpus": 9}, "vm": {"freeGpus": 8}})


def test_what_somebody_wrote_into_status_is_put_right() -> None:
    objects = stored(listing("h100"))
    status = objects["h100"]["status"]
    assert isinstance(status, dict)
    edited = {**objects, "h100": {**objects["h100"], "status": {**status, "freeGpus": "many", "extra": 1}}}
    told = after(edited, to_tell(edited, listing("h100"), NOW))
    assert merge_patch(_status(told), _status(objects)) == {}


def _status(objects: Mapping[str, JsonObject]) -> Mapping[str, JsonValue]:
    status = objects["h100"]["status"]
    assert isinstance(status, dict)
    return status


def test_a_model_that_left_goes_and_one_that_somebody_made_goes_as_well() -> None:
    objects = stored(listing("h100", "k80"))
    assert to_remove(objects, listing("h100", "l4")) == [Remove("k80", "uid-k80")]
    assert to_make(objects, listing("h100", "l4")) == [Make("l4")]


def test_without_an_account_the_last_known_stays_and_says_since_when() -> None:
    objects = stored(listing("h100"))
    stale = after(objects, to_tell(objects, GONE, NOW + timedelta(minutes=5)))
    assert says(stale["h100"], "Ready")["status"] == "True"
    stalled = says(stale["h100"], "Stalled")
    assert (stalled["reason"], stalled["lastTransitionTime"]) == ("AccountMissing", "2026-03-01T12:05:00Z")
    assert stalled["message"] == f"not refreshed since 2026-03-01T12:05:00Z: {GONE.message}"
    assert _status(stale)["freeGpus"] == 13
    again = Trouble(Reason.ACCOUNT_MISSING, "other words")
    assert to_tell(stale, again, NOW + timedelta(hours=2)) == []
    other = after(stale, to_tell(stale, Trouble(Reason.CLOUD_UNAVAILABLE, "502"), NOW + timedelta(hours=2)))
    assert says(other["h100"], "Stalled")["message"] == "not refreshed since 2026-03-01T12:05:00Z: 502"
    healed = after(other, to_tell(other, listing("h100"), NOW + timedelta(hours=3)))
    assert says(healed["h100"], "Stalled") == {}
    assert says(healed["h100"], "Ready")["lastTransitionTime"] == "2026-03-01T12:00:00Z"


def test_an_object_that_never_told_anything_is_not_ready_without_an_account() -> None:
    objects: dict[str, JsonObject] = {"h100": {"metadata": {"name": "h100", "generation": 1}, "status": {}}}
    assert says(after(objects, to_tell(objects, GONE, NOW))["h100"], "Ready")["status"] == "False"


def test_numbers_beyond_64_bits_are_told_as_the_largest_that_a_status_can_have() -> None:
    huge, most = 10**30, 2**63 - 1
    odd = replace(
        listing("h100"),
        models=[GpuModel(id="h100", memory_gb=huge)],
        availability=[
            GpuAvailability(
                gpu_model_id="h100",
                vm=ClassAvailability(
                    total_gpus=huge, free_gpus=-huge, max_placeable_gpus=huge, placeable_gpu_counts=[1, huge]
                ),
            )
        ],
        pricing=Pricing(
            gpu=[GpuPrice(gpu_model_id="h100", price_per_hour_cents=huge)],
            cpu=[CpuPrice(resource_size="small", price_per_hour_cents=huge, vcpu=huge, ram_mb=huge)],
        ),
    )
    told = statuses(odd)
    model, vm, sizes = told["h100"], told["h100"].vm, told[CATALOG].cpu_sizes
    assert vm is not None
    assert sizes is not None
    assert (model.memory_gb, model.price_per_hour_cents, model.free_gpus) == (most, most, -most)
    assert (vm.total_gpus, vm.max_placeable_gpus, vm.placeable_gpu_counts) == (most, most, [1, most])
    assert (sizes[0].vcpu, sizes[0].ram_mb, sizes[0].price_per_hour_cents) == (most, most, most)
