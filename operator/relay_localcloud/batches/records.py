"""Records of batches (section 2), and the lines of their outcomes (assumed: OpenAI's); without I/O."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pydantic import JsonValue

from relay_localcloud.http.json_values import parsed
from relay_localcloud.inference.charges import NOTHING, Usage
from relay_localcloud.inference.errors import INSUFFICIENT_BALANCE, InferenceError
from relay_localcloud.inference.invoke import Answer
from relay_wire.inference import Family

LONGEST_LINE: Final = 10 * 1024 * 1024
"""Bytes of one record, without its line break: a body that is too large online is too large here (section 8)."""

OWNED_KEY: Final = "relay"
"""The key of a body that belongs to the worker; the model never sees it."""
_BARE: Final = "tool_config"
"""Retired at the top level of a record and of its body (section 2, "Batch job")."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a whole batch fails; `line` counts from 1, None if the problem is not in a single line."""

    code: str
    message: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a batch, which has passed validation."""

    custom_id: str
    model: str
    body: Mapping[str, Any]
    retired: str | None = None
    """Where the record has a bare `tool_config`, beside its body or in it."""


@dataclass(frozen=True, slots=True)
class RecordFailure:
    """Why one record failed before, between or after the model's answers."""

    code: str
    message: str


def read(line: bytes, endpoint: Family, number: int = 0) -> Record | Problem:
    """Read one line of the input."""
    try:
        document = parsed(line.rstrip(b"\r\n"))
    except ValueError as error:
        why = str(error).replace(" at line 1 column ", " at column ")  # `number` says which line of the input it is
        return Problem("invalid_json_line", f"This line is not valid JSON: {why}.", number)
    if not isinstance(document, dict):
        return Problem("invalid_json_line", "This line is not a JSON object.", number)
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
    places = {_BARE: document, f"body.{_BARE}": body}
    return Record(custom_id, model, body, next((place for place, has in places.items() if _BARE in has), None))


def valid(line: bytes, endpoint: Family) -> Record:
    """Read one line of an input that has passed validation."""
    record = read(line, endpoint)
    assert isinstance(record, Record)
    return record


def failure_of(record: Record) -> RecordFailure | None:
    """Why no model can do a record; None if one can."""
    if record.body.get("stream"):
        return RecordFailure("stream_unsupported", "body.stream: a batch does not stream; leave it out.")
    if record.retired is not None:
        moved = f"{record.retired}: it has moved to body.{OWNED_KEY}.{_BARE}; put it there."
        return RecordFailure("tool_config_moved", moved)
    return None


def sent_to_model(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as the model receives it: without the key that belongs to the worker."""
    return {name: value for name, value in body.items() if name != OWNED_KEY}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a record: the model's answer with its status, or why it was not asked or its answer not used.

    `usage` is that of every answered invocation, even if the record failed afterwards, at the batch's price.
    """

    status: int | None
    body: JsonValue
    failure: RecordFailure | None = None
    usage: Usage = NOTHING

    @classmethod
    def answered(cls, answer: Answer) -> "Outcome":
        """The model answered."""
        return cls(200, answer.body, usage=answer.usage.halved)

    @classmethod
    def refused(cls, error: InferenceError, endpoint: Family, usage: Usage = NOTHING) -> "Outcome":
        """The model refused; `usage` is that of its earlier answers."""
        return cls(error.status, error.body(endpoint), usage=usage)

    @classmethod
    def failed(cls, failure: RecordFailure, usage: Usage = NOTHING) -> "Outcome":
        """The model was not asked, or its answer not used."""
        return cls(None, None, failure, usage)

    @property
    def lacks_funds(self) -> bool:
        """Whether the model was not asked at all because of insufficient funds."""
        return self.status == INSUFFICIENT_BALANCE[0] and self.usage == NOTHING

    @property
    def succeeded(self) -> bool:
        """Whether it belongs in the output file."""
        return self.failure is None and self.status is not None and self.status < 400


@dataclass
class Progress:
    """What a slice of the work adds: a line per record in one of the two files, counts, and the usage to charge."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    done: int = 0
    completed: int = 0
    failed: int = 0
    usage: Usage = NOTHING  # each record that has not expired is one request
    end: int = 0
    """The position in the input at which the next record begins."""

    def add(self, identifier: str, custom_id: str, outcome: Outcome, end: int) -> None:
        """Add a finished record whose line ended at `end`."""
        self._write(identifier, custom_id, outcome, end)
        self.completed += outcome.succeeded
        self.failed += not outcome.succeeded
        self.usage += replace(outcome.usage, requests=1)

    def expire(self, identifier: str, custom_id: str, end: int) -> None:
        """Add a record that was not done in time: it gets a line, and counts neither as completed nor as failed."""
        failure = RecordFailure("batch_expired", "The batch's completion window ended before this record was done.")
        self._write(identifier, custom_id, Outcome.failed(failure), end)

    def _write(self, identifier: str, custom_id: str, outcome: Outcome, end: int) -> None:
        target = self.output if outcome.succeeded else self.errors
        target += _line(identifier, custom_id, outcome)
        self.done += 1
        self.end = end


def _line(identifier: str, custom_id: str, outcome: Outcome) -> bytes:
    response, error = None, None
    if outcome.failure is not None:
        error = {"code": outcome.failure.code, "message": outcome.failure.message}
    else:
        response = {"status_code": outcome.status, "request_id": f"req_{identifier}", "body": outcome.body}
    line = {"id": f"batch_req_{identifier}", "custom_id": custom_id, "response": response, "error": error}
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"
