"""Problems of records, in messages that never quote a record, since inputs may come from Secrets."""

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum

SHOWN = 20
"""Problems kept for display; all are counted."""


class ProblemCode(StrEnum):
    """The cloud's own code for a fault, if it has one (section 7, and interpretations)."""

    EMPTY_FILE = "empty_file"
    INVALID_UTF8 = "invalid_utf8"
    INVALID_JSON_LINE = "invalid_json_line"
    LINE_TOO_LONG = "line_too_long"
    MISSING_CUSTOM_ID = "missing_custom_id"
    CUSTOM_ID_TOO_LONG = "custom_id_too_long"
    DUPLICATE_CUSTOM_ID = "duplicate_custom_id"
    UNKNOWN_CUSTOM_ID = "unknown_custom_id"
    INVALID_METHOD = "invalid_method"
    URL_MISMATCH = "url_mismatch"
    INVALID_BODY = "invalid_body"
    MODEL_MISMATCH = "model_mismatch"
    STREAM_UNSUPPORTED = "stream_unsupported"
    TOOL_CONFIG_MOVED = "tool_config_moved"
    INVALID_TOOL_CONFIG = "invalid_tool_config"
    TOOL_CONFIG_TWICE = "tool_config_twice"


Fault = tuple[ProblemCode, str]
"""A code and its message, before the line is known."""


@dataclass(frozen=True, slots=True)
class RecordProblem:
    """Why one line cannot be sent; `line` counts from 1, and 0 means the whole input."""

    line: int
    code: ProblemCode
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}" if self.line else self.message


@dataclass(slots=True)
class Problems:
    """The first problems in the order of lines, at least one of each code, and counts of all by code."""

    first: list[RecordProblem] = field(default_factory=list)
    counts: Counter[ProblemCode] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        """The number of all problems, shown or not."""
        return self.counts.total()

    @property
    def told(self) -> str:
        """The first problem, and where the others are."""
        more = self.total - 1
        others = f", and {more} more problem{'' if more == 1 else 's'} (see status.problems)" if more else ""
        return f"{self.first[0]}{others}"

    def add(self, problem: RecordProblem) -> None:
        """Add a problem; callers add them in the order of lines."""
        self.counts[problem.code] += 1
        if len(self.first) == SHOWN:
            if self.counts[problem.code] > 1:
                return
            self._make_room()
        self.first.append(problem)

    def _make_room(self) -> None:
        """Drop the last problem that is not the first of its code; there are fewer codes than places."""
        codes = [problem.code for problem in self.first]
        del self.first[max(index for index, code in enumerate(codes) if code in codes[:index])]
