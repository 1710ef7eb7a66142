"""Batch jobs of the inference API (section 2, "Batch job"; section 3, "Batch status")."""

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue

from relay_wire.base import Cursor, Lenient, ListOf, OptionalId, ResourceId, SnakeReceived, SnakeSent, Whole


class BatchStatus(StrEnum):
    """Every status of section 3; a received status may be any other string."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


FINAL = frozenset({BatchStatus.COMPLETED, BatchStatus.FAILED, BatchStatus.EXPIRED, BatchStatus.CANCELLED})
"""Statuses that never change again."""

ENDPOINTS = ("/v1/chat/completions", "/v1/messages")
"""The API families a batch can call."""


class ToolConfig(SnakeSent):
    """Tool rounds of one chat record, at `body.relay.tool_config`; numbers above their bounds are clamped."""

    url: str
    type: Literal["http", "mcp"] = "http"
    authorization: str | None = Field(None, repr=False)
    context: dict[str, JsonValue] | None = None
    max_rounds: int | None = Field(None, ge=0)
    timeout_ms: int | None = Field(None, ge=0)


class BatchCreate(SnakeSent):
    """Create batch request; either an uploaded file or inline records (assumed: the body is not shown)."""

    input_file_id: str | None = None
    requests: list[dict[str, Any]] | None = None
    """Inline records, each like a line of a file."""
    endpoint: str
    completion_window: Literal["24h"] = "24h"
    metadata: dict[str, str] | None = None


class BatchCounts(SnakeReceived):
    """Counts of records so far; records still to run are neither completed nor failed."""

    total: Whole = 0
    completed: Whole = 0
    failed: Whole = 0


class BatchUsage(SnakeReceived):
    """Tokens so far, and their price in nano-USD with the batch discount applied."""

    input_tokens: Whole = 0
    output_tokens: Whole = 0
    cost_nano_usd: Whole = 0


class BatchProblem(SnakeReceived):
    """Why validation failed; `line` counts from 1."""

    code: Lenient[str] = None
    message: Lenient[str] = None
    line: Lenient[Whole] = None


class BatchProblems(SnakeReceived):
    """All problems that validation found."""

    object: Literal["list"] = "list"
    data: ListOf[BatchProblem] = Field(default_factory=list)


class Batch(SnakeReceived):
    """One batch; timestamps are Unix seconds."""

    id: ResourceId
    object: Literal["batch"] = "batch"
    endpoint: Lenient[str] = None
    model: Lenient[str] = None
    input_file_id: OptionalId = None
    completion_window: Lenient[str] = None
    status: str
    created_at: Lenient[Whole] = None
    expires_at: Lenient[Whole] = None
    completed_at: Lenient[Whole] = None
    failed_at: Lenient[Whole] = None
    expired_at: Lenient[Whole] = None
    cancelled_at: Lenient[Whole] = None
    output_file_id: OptionalId = None
    error_file_id: OptionalId = None
    request_counts: BatchCounts = Field(default_factory=BatchCounts)
    usage: Lenient[BatchUsage] = None
    metadata: Lenient[dict[str, str]] = None
    errors: Lenient[BatchProblems] = None


class BatchList(SnakeReceived):
    """One page of batches, newest first; `last_id` is the next page's `after` (section 2)."""

    object: Literal["list"] = "list"
    data: ListOf[Batch]
    has_more: bool
    first_id: Lenient[str] = None
    last_id: Cursor = None
