"""The page of one batch: its progress, its problems, and its first answers and errors."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from relay_localcloud.batches.rows import BATCHES, FILES, Batch
from relay_localcloud.console.reading import Reading
from relay_localcloud.http.errors import ApiError
from relay_wire.batches import FINAL

_LINES_SHOWN: Final = 10
_PROBLEMS_SHOWN: Final = 20
_READ: Final = 256 * 1024
"""How many bytes of a file are read; only whole lines of them are shown."""
_LONGEST_SHOWN: Final = 600
"""The characters shown of an answer."""


def content(reading: Reading) -> dict[str, object]:
    """The batch with the id in the request; ApiError 404 if there is none."""
    batch_id = reading.requested.word("id") or ""
    batch = BATCHES.find(reading.tx, id=batch_id)
    if batch is None:
        raise ApiError(404, f"There is no batch {batch_id!r}: the cloud has forgotten it, or it never existed.")
    problems = json.loads(batch.problems or "[]")
    return {
        "title": "Batch",
        "batch": batch,
        "problems": problems[:_PROBLEMS_SHOWN],
        "more_problems": max(len(problems) - _PROBLEMS_SHOWN, 0),
        "answers": _lines(reading, batch, batch.output_file_id, batch.output_bytes),
        "errors": _lines(reading, batch, batch.error_file_id, batch.error_bytes),
    }


def _lines(reading: Reading, batch: Batch, file_id: str, size: int) -> Sequence[Mapping[str, object]] | None:
    """The first lines of a file of the batch; None if it was deleted."""
    if not size:
        return []
    if batch.status in FINAL and FILES.find(reading.tx, id=file_id, deleted_at=None) is None:
        return None
    with reading.cloud.files.read(file_id) as file:
        begun = file.read(min(size, _READ))
    whole = begun[: begun.rfind(b"\n") + 1].splitlines()
    return [{"number": number, **_shown(json.loads(line))} for number, line in enumerate(whole[:_LINES_SHOWN], 1)]


def _shown(line: Mapping[str, Any]) -> dict[str, object]:
    response, error = line["response"], line["error"]
    words = f"{error['code']}: {error['message']}" if response is None else said(response["body"])
    return {
        "custom_id": line["custom_id"],
        "status": None if response is None else response["status_code"],
        "said": words if len(words) <= _LONGEST_SHOWN else words[:_LONGEST_SHOWN] + " …",
    }


def said(body: Any) -> str:  # noqa: ANN401 - whatever a model server answered
    """The text of an answer, of either family, or of an error; the whole body as JSON if it has none."""
    match body:
        case {"choices": [{"message": {"content": str(words)}}, *_]} if words:
            return words
        case {"content": [{"text": str(words)}, *_]} if words:
            return words
        case {"error": {"message": str(words)}}:
            return words
    return json.dumps(body, ensure_ascii=False)
