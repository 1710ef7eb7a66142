"""The writes that bring the objects up to date. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from pydantic import JsonValue, ValidationError

from relay_kube.kube import JsonObject
from relay_operator.api.conditions import ConditionType, Reason
from relay_operator.api.gpumodel import GpuModelStatus
from relay_operator.api.meta import rfc3339
from relay_operator.catalog.listing import Listing, statuses
from relay_operator.engine.conditions import Wanted, as_it_was, find, written
from relay_operator.engine.manifests import part
from relay_operator.engine.status import dumped, merge_patch


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the catalog could not be read."""

    reason: Reason
    message: str
    retry_after: float = 0.0
    """Seconds that the cloud asks to wait."""


@dataclass(frozen=True, slots=True)
class Make:
    """Create the object; a later change sets its status."""

    name: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Patch the status."""

    name: str
    patch: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete exactly this object."""

    name: str
    uid: str


Change: TypeAlias = Make | Tell | Remove
Objects: TypeAlias = Mapping[str, JsonObject]
"""The existing GpuModels, by name."""


def to_make(objects: Objects, listing: Listing) -> list[Make]:
    """Models that the cloud lists and that have no object yet."""
    return [Make(name) for name in statuses(listing) if name not in objects]


def to_remove(objects: Objects, listing: Listing) -> list[Remove]:
    """Objects of models that the cloud no longer lists."""
    listed = statuses(listing)
    return [Remove(name, str(part(raw, "metadata").get("uid"))) for name, raw in objects.items() if name not in listed]


def to_tell(objects: Objects, outcome: Listing | Trouble, now: datetime) -> list[Tell]:
    """Status patches for what the objects do not show yet; what could not be read keeps its last known value."""
    if isinstance(outcome, Listing):
        found: Iterable[tuple[str, JsonObject]] = _fresh(objects, outcome, now)
    else:
        found = ((name, _stale(raw, outcome, now)) for name, raw in objects.items())
    return [Tell(name, patch) for name, patch in found if patch]


def _fresh(objects: Objects, listing: Listing, now: datetime) -> Iterator[tuple[str, JsonObject]]:
    wanted = Wanted(ConditionType.READY, "True", Reason.AVAILABLE, f"as the {listing.source} sees it")
    for name, facts in statuses(listing).items():
        if name in objects:
            yield name, _patch(objects[name], facts, [wanted], now)


def _stale(raw: JsonObject, trouble: Trouble, now: datetime) -> JsonObject:
    before = _status(raw)
    stalled, ready = (find(before.conditions, each) for each in (ConditionType.STALLED, ConditionType.READY))
    if stalled is not None and stalled.reason == trouble.reason:
        return {}  # another wording of the same trouble is not worth a write to every object
    since = stalled.last_transition_time if stalled is not None else now
    message = f"not refreshed since {rfc3339(since)}: {trouble.message}"
    wanted = [
        as_it_was(ready) if ready is not None else Wanted(ConditionType.READY, "False", trouble.reason, message),
        Wanted(ConditionType.STALLED, "True", trouble.reason, message),
    ]
    return _patch(raw, before, wanted, now)


def _patch(raw: JsonObject, facts: GpuModelStatus, wanted: Iterable[Wanted], now: datetime) -> JsonObject:
    generation = part(raw, "metadata").get("generation")
    known = generation if isinstance(generation, int) else 0
    conditions = written(_status(raw).conditions, wanted, known, now)
    after = facts.model_copy(update={"observed_generation": known, "conditions": conditions})
    return merge_patch(part(raw, "status"), dumped(after))


def _status(raw: JsonObject) -> GpuModelStatus:
    """The object's status; empty if it is malformed."""
    try:
        return GpuModelStatus.model_validate(part(raw, "status"))
    except ValidationError:
        return GpuModelStatus()
