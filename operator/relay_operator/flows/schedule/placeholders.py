"""What stands in braces in a template: the batch's name, and its time in the schedule's zone. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from pydantic import JsonValue

from relay_operator.api.inferencebatchschedule import PLACEHOLDERS
from relay_operator.engine.kube import JsonObject

_FORMS: Final = {"date": "%Y-%m-%d", "year": "%Y", "month": "%m", "day": "%d", "hour": "%H", "minute": "%M"}
_FIELDS: Final = (("input", "url"), ("output", "url"), ("output", "configMapRef", "name"))
_PLACEHOLDER: Final = re.compile("[{](" + "|".join(PLACEHOLDERS) + ")[}]")


def filled(spec: JsonObject, name: str, scheduled: datetime) -> JsonObject:
    """The spec of one batch; `scheduled` is in the schedule's zone. What else is in braces stays as it is."""
    values = {"name": name} | {word: scheduled.strftime(form) for word, form in _FORMS.items()}
    for path in _FIELDS:
        spec = _changed(spec, path, values)
    return spec


def _changed(part: JsonObject, path: tuple[str, ...], values: Mapping[str, str]) -> JsonObject:
    field, *rest = path
    found: JsonValue = part.get(field)
    if isinstance(found, dict) and rest:
        return {**part, field: _changed(found, tuple(rest), values)}
    if isinstance(found, str) and not rest:
        return {**part, field: _PLACEHOLDER.sub(lambda word: values[word[1]], found)}
    return part
