"""Batch request records (section 2): reading a line, and what is wrong with it; without I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic_core import from_json

from relay_wire.inference import Family

LONGEST_LINE: Final = 10 * 1024 * 1024
"""Bytes of one record: a body that could not be sent online cannot be sent here (section 8, "Inference body")."""

OWNED_KEY: Final = "relay"
"""The key of a body that belongs to the worker; the model never sees it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a whole batch fails; `line` counts from 1, None where no single line is to blame."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch that passed validation."""

    custom_id: str
    model: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """Why one record failed before, between or after the model's answers."""

    code: str
    message: str


def read(line: bytes, endpoint: Family, number: int = 0) -> Record | Problem:
    """Read one line of the input."""
    try:
        document = from_json(line, allow_inf_nan=False)
    except ValueError as error:
        return Problem("invalid_json_line", f"This line is not valid JSON: {error}.", number)
    if not isinstance(document, dict):
        return Problem("invalid_json_line", "This line is no JSON object.", number)
    custom_id, method, url, body = (document.get(name) for name in ("custom_id", "method", "url", "body"))
    if not isinstance(custom_id, str) or not custom_id:
        return Problem("missing_custom_id", "custom_id: give each record a string that no other record has.", number)
    if method != "POST":
        return Problem("invalid_method", "method: it must be POST.", number)
    if url != endpoint.value:
        return Problem("url_mismatch", f"url: it must be the batch's endpoint, {endpoint.value}.", number)
    if not isinstance(body, dict):
        return Problem("invalid_json_line", "body: it must be the JSON object that would be sent online.", number)
    model = body.get("model")
    if not isinstance(model, str) or not model:
        return Problem("model_not_found", "body.model: it is missing.", number)
    return Record(custom_id, model, body)


def valid(line: bytes, endpoint: Family) -> Record:
    """Read one line of an input that passed validation."""
    record = read(line, endpoint)
    assert isinstance(record, Record)
    return record


def failure_of(record: Record) -> RecordFailure | None:
    """What no batch can do for a record, whatever the model; None for nothing."""
    if record.body.get("stream"):
        return RecordFailure("stream_unsupported", "body.stream: a batch does not stream; leave it out.")
    if "tool_config" in record.body:
        return RecordFailure(
            "tool_config_moved", f"body.tool_config: it has moved to body.{OWNED_KEY}.tool_config; put it there."
        )
    return None


def sent_to_model(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as the model gets it: without the key that the worker owns."""
    return {name: value for name, value in body.items() if name != OWNED_KEY}
