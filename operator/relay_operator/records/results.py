"""Reads lines of output and error files (interpretations, "result lines"), and decides which failures to retry."""

import json
from collections import Counter
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pydantic_core import SchemaValidator, ValidationError, core_schema, from_json

from relay_client.redaction import presentable
from relay_operator.records.check import LONGEST_CUSTOM_ID
from relay_operator.records.density import is_dense
from relay_operator.records.ids import Ids
from relay_operator.records.lines import lines
from relay_operator.records.pace import Pace

Open = Callable[[], AsyncIterable[bytes]]
"""Opens a file; each call reads from its first byte."""

LONGEST_RESULT = 16 * 1024 * 1024
"""The most bytes of one result line in memory. Assumed: an answer is shorter than the longest request."""
REASONS = 50
"""The most reasons counted separately."""
OTHER = "other"
_REASON_CHARS = 64
_CODE_CHARS = 512
"""The most characters of a code that are looked at: the cloud may send one as long as a line."""
_BEGINNING = 8 * 1024
"""The bytes that are read of a dense line: more than the longest custom_id takes if each character is escaped."""
_EXPIRED = "batch_expired"


_ID = core_schema.str_schema(strict=True, min_length=1, max_length=LONGEST_CUSTOM_ID)
_CUSTOM_ID = SchemaValidator(core_schema.typed_dict_schema({"custom_id": core_schema.typed_dict_field(_ID)}))
"""Parses the whole line, but builds objects for nothing else, in half the time."""


def custom_id_of(line: bytes) -> str | None:
    """The custom_id of a record or result; None if the line is not an object, or its id cannot have been sent."""
    if is_dense(line):
        return _sent(_beginning(line))
    try:
        return str(_CUSTOM_ID.validate_json(line)["custom_id"])
    except ValidationError:
        return _sent(_forgiving(line))


def _sent(result: object) -> str | None:
    custom_id = _dict(result).get("custom_id")
    if not isinstance(custom_id, str) or not 0 < len(custom_id) <= LONGEST_CUSTOM_ID:
        return None
    return custom_id if _is_text(custom_id) else None


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a record failed: the code or type given, and the HTTP status if the model was asked."""

    code: str | None
    status: int | None

    @property
    def reason(self) -> str:
        """The code, else the status, in the form for display and counting."""
        if self.code:
            return _shown(self.code[:_CODE_CHARS])
        return OTHER if self.status is None else f"status_{self.status}"[:_REASON_CHARS]


@lru_cache(maxsize=REASONS)
def _shown(code: str) -> str:
    return presentable(code)[:_REASON_CHARS]


def failure_of(line: bytes) -> Failure:
    """The failure in one line of an error file; None for each missing value."""
    result = _dict(_value(line))
    response = _dict(result.get("response"))
    told = _dict(result.get("error")) or _dict(_dict(response.get("body")).get("error"))
    code, status = told.get("code") or told.get("type"), response.get("status_code")
    return Failure(code if isinstance(code, str) else None, status if type(status) is int else None)


@dataclass(frozen=True, slots=True)
class RetryableFailures:
    """Which failures make sending the record again worthwhile."""

    statuses: frozenset[int] = frozenset({429, 502, 503})
    codes: frozenset[str] = frozenset(
        {
            "rate_limit_error",
            "upstream_error",
            "upstream_unavailable",
            "tool_timeout",
            "tool_executor_error",
            _EXPIRED,
        }
    )

    def retries(self, failure: Failure) -> bool:
        """Whether the same record may succeed next time; never for what section 7 says not to send unchanged."""
        if failure.status in FINAL_STATUSES or failure.code in _FINAL_CODES:
            return False
        return failure.code in self.codes or failure.status in self.statuses


FINAL_STATUSES = frozenset({400, 401, 402, 403, 404, 413, 422})
"""Those of a record that section 7 says not to send unchanged."""
_FINAL_CODES = frozenset({"invalid_tool_config", "tool_config_moved", "stream_unsupported"})


@dataclass(slots=True)
class Reasons:
    """Counts of reasons; further ones after `REASONS` different ones count as `other`."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, failure: Failure) -> None:
        """Count one failure."""
        reason = failure.reason
        self.counts[reason if reason in self.counts or len(self.counts) < REASONS else OTHER] += 1


@dataclass(slots=True)
class Failures:
    """What the error files of one round contain."""

    retried: int = 0
    expired: int = 0
    """How many of the retried records expired, which the cloud does not count as failures."""
    reasons: Reasons = field(default_factory=Reasons)


async def failures(error_files: Sequence[Open], policy: RetryableFailures, again: Ids, pace: Pace) -> Failures:
    """Read the error files of a round, and add the ids of records to send again to `again`."""
    found = Failures()
    for file in error_files:
        async for block in lines(file(), pace, LONGEST_RESULT):
            ids = []
            for line in block.lines:
                if (custom_id := custom_id_of(line)) is None:
                    continue
                failure = failure_of(line)
                found.reasons.add(failure)
                if policy.retries(failure):
                    ids.append(custom_id)
                    found.expired += failure.code == _EXPIRED
            found.retried += len(ids)
            again.put(ids)
    return found


def _value(line: bytes) -> object:
    if is_dense(line):
        return _beginning(line)
    try:
        return from_json(line, cache_strings="keys")
    except ValueError:
        return _forgiving(line)


def _beginning(line: bytes) -> object:
    """What the first bytes of a dense line say: it was paid for, and is published without being decoded."""
    if not line.rstrip().endswith(b"}"):
        return None
    try:
        return from_json(line[:_BEGINNING], allow_partial=True)
    except ValueError:
        return None


def _forgiving(line: bytes) -> object:
    """Parse a result despite half a surrogate pair, as in a truncated answer: it is invalid JSON, but paid for."""
    try:
        return json.loads(line.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None


def _is_text(value: str) -> bool:
    """Whether the text has no half of a surrogate pair; ids of sent records have none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
