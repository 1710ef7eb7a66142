"""The page of settings: each with its value, its bounds, and a form that changes it."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from pydantic import JsonValue

from relay_localcloud.console.reading import Reading
from relay_localcloud.http.json_values import parsed
from relay_localcloud.settings import Settings

_LONGEST_NUMBER: Final = 30
_BOUNDS: Final = {"minimum": "at least", "exclusiveMinimum": "over", "maximum": "at most"}


def content(reading: Reading) -> dict[str, object]:
    """Every setting, in the order of the documentation."""
    values = reading.tx.settings.model_dump(mode="json", by_alias=True)
    return {
        "settings": [
            {"name": name, "value": written(values[name]), "usual": written(said["default"]), "bounds": _bounds(said)}
            for name, said in _described().items()
        ]
    }


def written(value: JsonValue) -> str:
    """A value as text for a form; empty for null."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case float():
            return f"{value:g}"
    return str(value)


def wanted(form: Mapping[str, str]) -> dict[str, JsonValue]:
    """The settings in a form; a value that is not JSON stays a text, which the settings' model accepts or refuses."""
    return {name: _read(form[name].strip()) for name in _described() if name in form}


def _read(text: str) -> JsonValue:
    if not text:
        return None
    try:
        return parsed(text) if len(text) <= _LONGEST_NUMBER else text
    except ValueError:
        return text


@cache
def _described() -> Mapping[str, Mapping[str, Any]]:
    properties: Mapping[str, Mapping[str, Any]] = Settings.model_json_schema(by_alias=True)["properties"]
    return properties


def _bounds(said: Mapping[str, Any]) -> str:
    kinds = said.get("anyOf", [said])
    if kinds[0]["type"] == "boolean":
        return "true or false"
    parts = [f"{word} {kinds[0][bound]:,}" for bound, word in _BOUNDS.items() if bound in kinds[0]]
    return ", ".join(parts) + ("; empty: not set" if len(kinds) > 1 else "")
