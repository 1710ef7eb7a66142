"""The batches of a schedule: what the cache knows of them, and their manifests. Pure."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from relay_kube.kube import JsonObject, ResourceType
from relay_operator.api import inferencebatch, meta
from relay_operator.api.inferencebatch_spec import OnExisting
from relay_operator.api.inferencebatchschedule import PLACEHOLDERS, SCHEDULE_LABEL, InferenceBatchSchedule
from relay_operator.api.meta import API_VERSION, ObjectKey, rfc3339
from relay_operator.engine.entry import Entry
from relay_operator.engine.fit_schema import moment
from relay_operator.engine.manifests import owner, owners, part
from relay_operator.flows.schedule.decide import Child, Outcome, StartBatch
from relay_operator.timetables.timetable import zone_of

KIND: Final = inferencebatch.DEFINITION.kind
TYPE: Final = ResourceType(inferencebatch.DEFINITION.plural, meta.GROUP, meta.VERSION)
SCHEDULED_AT: Final = f"{meta.ANNOTATION_PREFIX}scheduled-at"
"""The annotation with the scheduled time of a batch."""

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS: Final = {"date": "%Y-%m-%d", "year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M"}
_FIELDS: Final = (("input", "url"), ("output", "url"), ("output", "configMapRef", "name"))
_PLACEHOLDER: Final = re.compile("[{](" + "|".join(PLACEHOLDERS) + ")[}]")


def children(entries: Mapping[ObjectKey, Entry]) -> tuple[Child, ...]:
    """What a decision needs to know about the batches; those that only others' finalizers keep are over."""
    return tuple(_child(key, entry) for key, entry in entries.items() if key.kind == KIND and not entry.let_go)


def _child(key: ObjectKey, entry: Entry) -> Child:
    known = entry.owned
    created, ended = (moment(entry.created), moment(known.ended)) if known is not None else (None, None)
    return Child(
        name=key.name,
        uid=entry.uid,
        created=created or _LONG_AGO,
        outcome=Outcome(known.outcome) if known is not None and known.outcome else Outcome.ACTIVE,
        deleting=entry.deleting,
        ended=ended,
    )


def manifest(schedule: InferenceBatchSchedule, start: StartBatch) -> JsonObject:
    """The batch of one time, from the schedule's template; its time zone must exist."""
    template, zone = schedule.spec.batch_template, zone_of(schedule.spec.time_zone)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": start.name,
            "namespace": schedule.metadata.namespace,
            "labels": {**part(template, "metadata", "labels"), SCHEDULE_LABEL: schedule.metadata.name},
            "annotations": {**part(template, "metadata", "annotations"), SCHEDULED_AT: rfc3339(start.scheduled)},
            "ownerReferences": [owner(schedule.key, schedule.metadata.uid)],
        },
        "spec": filled({**part(template, "spec")}, start.name, start.scheduled.astimezone(zone)),
    }


def controlled_by(raw: Mapping[str, JsonValue], uid: str) -> bool:
    """Whether the object with this uid controls the given one."""
    return any(each.get("uid") == uid and each.get("controller") is True for each in owners(raw))


def filled(spec: JsonObject, name: str, scheduled: datetime) -> JsonObject:
    """The spec of one batch, with its name and time in place of the placeholders; other braces stay as they are.

    `scheduled` is in the schedule's zone.
    """
    values = {"name": name} | {word: scheduled.strftime(form) for word, form in _FORMS.items()}
    for path in _FIELDS:
        spec = _changed(spec, path, values)
    return spec


def one_output(template: Mapping[str, JsonValue]) -> str:
    """The output of all batches of this template, if none may take it from another; else empty."""
    output = part(template, "spec", "output")
    place = output.get("url") or part(output, "configMapRef").get("name")
    fails = output.get("onExisting", OnExisting.FAIL) == OnExisting.FAIL
    return place if fails and isinstance(place, str) and not _PLACEHOLDER.search(place) else ""


def _changed(part: JsonObject, path: tuple[str, ...], values: Mapping[str, str]) -> JsonObject:
    field, *rest = path
    found: JsonValue = part.get(field)
    if isinstance(found, dict) and rest:
        return {**part, field: _changed(found, tuple(rest), values)}
    if isinstance(found, str) and not rest:
        return {**part, field: _PLACEHOLDER.sub(lambda word: values[word[1]], found)}
    return part
