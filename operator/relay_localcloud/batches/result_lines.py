"""Lines of output and error files (assumed: OpenAI's): one a record, in the order of the input."""

import json
from dataclasses import dataclass, field

from pydantic import JsonValue

from relay_localcloud.batches.records import RecordFailure
from relay_localcloud.inference.usage import Usage


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a record: what the model answered with its status, or why it was not asked or not listened to.

    Tokens and cost count every invocation that answered, also where the record failed after it; the cost is the
    batch's price.
    """

    status: int | None
    body: JsonValue
    failure: RecordFailure | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0

    @property
    def succeeded(self) -> bool:
        """Whether it belongs into the output file."""
        return self.failure is None and self.status is not None and self.status < 400


@dataclass
class Progress:
    """What a slice of the work adds: lines for both files, counts and usage."""

    output: bytearray = field(default_factory=bytearray)
    errors: bytearray = field(default_factory=bytearray)
    done: int = 0
    completed: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_nano_usd: int = 0
    end: int = 0
    """Where in the input the next record begins."""

    def add(self, identifier: str, custom_id: str, outcome: Outcome, end: int) -> None:
        """A record was done; its line ended at `end`."""
        target = self.output if outcome.succeeded else self.errors
        target += _line(identifier, custom_id, outcome)
        self.completed += outcome.succeeded
        self.failed += not outcome.succeeded
        self.input_tokens += outcome.input_tokens
        self.output_tokens += outcome.output_tokens
        self.cost_nano_usd += outcome.cost_nano_usd
        self._pass(end)

    def expire(self, identifier: str, custom_id: str, end: int) -> None:
        """A record was not done in time: it gets its line, and counts neither as completed nor as failed."""
        failure = RecordFailure("batch_expired", "The batch's completion window ended before this record was done.")
        self.errors += _line(identifier, custom_id, Outcome(None, None, failure))
        self._pass(end)

    @property
    def usage(self) -> Usage:
        """What is charged; records that expired were never asked."""
        return Usage(self.completed + self.failed, self.input_tokens, self.output_tokens, self.cost_nano_usd)

    def _pass(self, end: int) -> None:
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
