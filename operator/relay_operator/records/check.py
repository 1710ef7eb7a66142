"""Judges one record of a batch (section 2, "Batch job"). Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue
from pydantic_core import from_json, to_json

from relay_operator.records.density import TOO_DENSE, is_dense
from relay_operator.records.lines import LONGEST_LINE
from relay_operator.records.problems import Fault, RecordProblem
from relay_operator.records.problems import ProblemCode as Code
from relay_wire.batches import ToolConfig

LONGEST_CUSTOM_ID = 512
"""Characters. Assumed: the specification states no bound, but memory needs one."""

CHAT = "/v1/chat/completions"
"""The only endpoint whose records may use tools."""

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Expected:
    """The rules for every record of one batch."""

    endpoint: str
    model: str
    tool_config: Mapping[str, JsonValue] | None = field(default=None, repr=False)
    """Part of every record; holds the executor's authorization."""
    longest: int = LONGEST_LINE
    """The most bytes of a record as sent."""


def tool_config_of(config: ToolConfig) -> dict[str, JsonValue]:
    """The value of `body.relay.tool_config`; absent fields stay absent, so that the cloud's defaults apply."""
    return config.model_dump(mode="json", by_alias=True, exclude_none=True)


Checked = tuple[str, bytes]
"""The custom_id and the line to send."""


def check(line: bytes, number: int, expected: Expected) -> Checked | RecordProblem:
    """The record as sent, or what is wrong with it.

    A record that needs no change keeps its bytes. An absent or null `method`, `url` or `body.model` is filled in, so
    that people state once in the object what all records share.
    """
    if is_dense(line):
        return RecordProblem(number, Code.INVALID_JSON_LINE, TOO_DENSE)
    try:
        record = from_json(line, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        return RecordProblem(number, *_unreadable(line, str(error)))
    if type(record) is not dict:
        return RecordProblem(number, Code.INVALID_JSON_LINE, "the record must be a JSON object")
    if expected.tool_config is None and _complete(record, expected):
        return record["custom_id"], line
    changes = expected.tool_config is not None or _has_gaps(record)
    for rule in _RULES:
        if (fault := rule(record, expected)) is not None:
            return RecordProblem(number, *fault)
    return _rewritten(record, number, expected) if changes else (record["custom_id"], line)


def _complete(record: Record, expected: Expected) -> bool:
    """Whether the record can be sent as it is; a fast path for the common case."""
    custom_id, body = record.get("custom_id"), record.get("body")
    return (
        type(custom_id) is str
        and 0 < len(custom_id) <= LONGEST_CUSTOM_ID
        and record.get("method") == "POST"
        and record.get("url") == expected.endpoint
        and type(body) is dict
        and body.get("model") == expected.model
        and "stream" not in body
        and "relay" not in body
        and "tool_config" not in body
        and "tool_config" not in record
    )


def _has_gaps(record: Record) -> bool:
    """Whether a rule has to fill in a field."""
    body = record.get("body")
    return _absent(record, "method") or _absent(record, "url") or (isinstance(body, dict) and _absent(body, "model"))


def _custom_id(record: Record, _: Expected) -> Fault | None:
    custom_id = record.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        return Code.MISSING_CUSTOM_ID, "custom_id must be a string that is not empty"
    if len(custom_id) > LONGEST_CUSTOM_ID:
        return Code.CUSTOM_ID_TOO_LONG, f"custom_id has more than {LONGEST_CUSTOM_ID} characters"
    return None


def _method(record: Record, _: Expected) -> Fault | None:
    if _absent(record, "method"):
        record["method"] = "POST"
    return None if record["method"] == "POST" else (Code.INVALID_METHOD, "method must be POST, or absent")


def _url(record: Record, expected: Expected) -> Fault | None:
    if _absent(record, "url"):
        record["url"] = expected.endpoint
    if record["url"] == expected.endpoint:
        return None
    return Code.URL_MISMATCH, f"url must be the batch's endpoint {expected.endpoint}, or absent"


def _body(record: Record, _: Expected) -> Fault | None:
    return None if isinstance(record.get("body"), dict) else (Code.INVALID_BODY, "body must be a JSON object")


def _model(record: Record, expected: Expected) -> Fault | None:
    body = record["body"]
    if _absent(body, "model"):
        body["model"] = expected.model
    if body["model"] == expected.model:
        return None
    return Code.MODEL_MISMATCH, f"body.model must be the batch's model {expected.model}, or absent"


def _stream(record: Record, _: Expected) -> Fault | None:
    stream = record["body"].get("stream")
    if stream is None or stream is False:
        return None
    return Code.STREAM_UNSUPPORTED, "body.stream must be false or absent: batches do not stream"


def _tools(record: Record, expected: Expected) -> Fault | None:
    """Check a record's tool configuration, and add the batch's own if it has one (section 2, "Tool config")."""
    body, tool_config = record["body"], expected.tool_config
    if "tool_config" in body or "tool_config" in record:
        return Code.TOOL_CONFIG_MOVED, "tool_config has moved: put it at body.relay.tool_config"
    relay = body.get("relay")
    if relay is not None and not isinstance(relay, dict):
        return Code.INVALID_TOOL_CONFIG, "body.relay must be a JSON object"
    own = relay is not None and "tool_config" in relay
    if expected.endpoint != CHAT and (own or tool_config is not None):
        return Code.INVALID_TOOL_CONFIG, f"only records of {CHAT} can have a tool_config"
    if tool_config is None:
        return None
    if own:
        return Code.TOOL_CONFIG_TWICE, "body.relay.tool_config is there, and the batch has a toolConfig: keep one"
    body["relay"] = {**(relay or {}), "tool_config": tool_config}
    return None


_RULES: tuple[Callable[[Record, Expected], Fault | None], ...] = (
    _custom_id,
    _method,
    _url,
    _body,
    _model,
    _stream,
    _tools,
)
"""In the order of the record's fields; only the first fault is reported."""


def _absent(holder: Record, key: str) -> bool:
    return holder.get(key) is None


def _rewritten(record: Record, number: int, expected: Expected) -> Checked | RecordProblem:
    line = to_json(record)
    if b"Infinity" in line and not _finite(line):
        return RecordProblem(number, Code.INVALID_JSON_LINE, "a number is too large to be written again")
    if len(line) > expected.longest:
        return RecordProblem(number, Code.LINE_TOO_LONG, too_long(expected.longest))
    return record["custom_id"], line


def _finite(line: bytes) -> bool:
    """Whether the text is valid JSON: a number such as 1e999 parses as infinity, which JSON cannot express."""
    try:
        from_json(line, allow_inf_nan=False)
    except ValueError:
        return False
    return True


def too_long(longest: int) -> str:
    """The message for a line over this many bytes."""
    return f"the line is longer than {longest} bytes"


_PLACE = re.compile(r" at line \d+ column (\d+)$")
"""The parser's position in its error message; the line is always 1."""


_WORDING = {"EOF while parsing": "the line ends within", "expected ident": "neither true, false nor null"}
"""Words for those of the parser's that only its authors understand."""


_GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""


def _unreadable(line: bytes, reason: str) -> Fault:
    if line.startswith(_GZIP):
        return Code.INVALID_UTF8, "the input is compressed with gzip: store it uncompressed"
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return Code.INVALID_UTF8, f"byte {error.start + 1} is not UTF-8: save the input as UTF-8"
    for parsers, ours in _WORDING.items():
        reason = reason.replace(parsers, ours)
    return Code.INVALID_JSON_LINE, "not JSON: " + _PLACE.sub(r" at byte \1", reason)
