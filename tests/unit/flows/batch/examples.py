"""Batches as tests of pure parts need them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from relay_operator.api.inferencebatch import InferenceBatch, InferenceBatchStatus, PartStatus, RequestCounts, Usage
from relay_wire.batches import Batch

if TYPE_CHECKING:
    from tests.unit.engine.apiserver import Json

NOON = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
TOKEN = "t0ken"
LONGEST_WAIT = timedelta(hours=1)
"""The longest that a refused attempt waits."""


def batch(
    *, status: InferenceBatchStatus | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> InferenceBatch:
    """The smallest batch, with more in its spec where told."""
    fields: dict[str, Any] = {
        "model": "echo",
        "endpoint": "/v1/chat/completions",
        "input": {"configMapRef": {"name": "prompts", "key": "input.jsonl"}},
        "output": {"configMapRef": {"name": "answers"}},
    }
    metadata = {"name": "nightly", "namespace": "ns", "uid": "uid-1", "annotations": annotations or {}}
    body = {"metadata": metadata, "spec": fields | spec}
    obj = InferenceBatch.model_validate(body)
    return obj if status is None else obj.model_copy(update={"status": status})


def as_seen(obj: InferenceBatch) -> Json:
    """The batch as the watch tells of it."""
    told: Json = json.loads(obj.model_dump_json(by_alias=True, exclude_none=True))
    return told


def part(number: int = 1, of_round: int = 1, **told: Any) -> PartStatus:
    """One part of ten records."""
    return PartStatus.model_validate({"round": of_round, "part": number, "records": 10} | told)


def sent(number: int = 1, of_round: int = 1, state: str = "in_progress", **told: Any) -> PartStatus:
    """One whose batch exists."""
    known = {"inputFileId": f"file_{of_round}_{number}", "batchId": f"batch_{of_round}_{number}", "state": state}
    return part(number, of_round, **(known | told))


def status(*parts: PartStatus, **told: Any) -> InferenceBatchStatus:
    """A status with these parts, in their latest round."""
    number = max((each.round for each in parts), default=1)
    fields: dict[str, Any] = {"round": number, "attempt": number, "create_token": TOKEN, "parts": list(parts) or None}
    return InferenceBatchStatus(**(fields | told))


def seen(batch_id: str = "batch_1_1", state: str = "in_progress", **told: Any) -> Batch:
    """What the cloud says of a batch."""
    return Batch.model_validate({"id": batch_id, "status": state} | told)


__all__ = ["LONGEST_WAIT", "NOON", "TOKEN", "RequestCounts", "Usage", "batch", "part", "seen", "sent", "status"]
