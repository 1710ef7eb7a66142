"""Validates a batch's input: every line once, in slices, with memory that does not grow with the file."""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import IO, Final

from relay_localcloud.batches.records import LONGEST_LINE, Problem, Record, read
from relay_localcloud.http.json_values import MOST_VALUES, exceeds, has_infinite
from relay_wire.inference import Family

MOST_PROBLEMS: Final = 100
"""How many problems are reported; later lines are not read."""

MOST_BLANK_LINES: Final = 10_000
"""How many blank lines in a row are skipped if a record follows them."""

_LINES_A_SLICE: Final = 200
_BYTES_A_SLICE: Final = 256 * 1024
_SHOWN: Final = 100  # characters that are quoted from a line


@dataclass
class Findings:
    """The results of validation: how many records, for which model, and the problems."""

    records: int = 0
    model: str | None = None
    problems: list[Problem] = field(default_factory=list)
    blank_lines: int = 0
    """How many blank lines came last."""
    finished: bool = False


def examine(content: IO[bytes], endpoint: Family, serves: Callable[[str], bool]) -> Iterator[Findings]:
    """Read the whole input; yields the findings so far after each slice. `serves` says whether a model exists.

    Closes the content.
    """
    found = Findings()
    with content, closing(_Seen()) as seen:
        length = 0
        for number, line in _numbered(content):
            problem = None
            for too_many in exceeds(line) if len(line) > MOST_VALUES else ():  # each value takes a byte
                if too_many:
                    problem = Problem("invalid_json_line", f"This line has over {MOST_VALUES} values.", number)
                yield found
            problem = problem or _look(line, number, endpoint, found, seen)
            if problem is not None:
                found.problems.append(problem)
            if len(found.problems) == MOST_PROBLEMS:
                break
            length += len(line)
            if number % _LINES_A_SLICE == 0 or length > _BYTES_A_SLICE:
                length = 0
                yield found
    if found.records == 0 and not found.problems:
        found.problems.append(Problem("empty_file", "The input has no record."))
    elif found.model is not None and not serves(found.model):
        found.problems.append(
            Problem(
                "model_not_found", f"There is no model {found.model[:_SHOWN]!r}; GET /v1/models lists what there is."
            )
        )
    found.finished = True
    yield found


def lines(content: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines with a record, and their numbers."""
    return ((number, line) for number, line in _numbered(content) if not line.isspace())


def _numbered(content: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """All lines; an overlong one is cut just over the limit."""
    number = 0
    while line := content.readline(LONGEST_LINE + len(b"\r\n")):
        number += 1
        if len(line) > LONGEST_LINE and not line.endswith(b"\n"):
            while (rest := content.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
                pass
        yield number, line


def _look(line: bytes, number: int, endpoint: Family, found: Findings, seen: "_Seen") -> Problem | None:
    if line.isspace():
        found.blank_lines += 1
        return None
    blank_lines, found.blank_lines = found.blank_lines, 0
    if blank_lines > MOST_BLANK_LINES:
        return Problem("invalid_json_line", f"Over {MOST_BLANK_LINES} blank lines come before this one.", number)
    if len(line.removesuffix(b"\n").removesuffix(b"\r")) > LONGEST_LINE:
        return Problem("invalid_json_line", f"This line is over {LONGEST_LINE} bytes.", number)
    match read(line, endpoint, number):
        case Problem() as problem:
            return problem
        case Record(body=body) if has_infinite(dict(body)):
            return Problem("invalid_json_line", "This line has a number that is too large.", number)
        case Record(custom_id, model):
            found.records += 1
            found.model = found.model or model
            if not seen.add(custom_id):
                return Problem(
                    "duplicate_custom_id", f"An earlier record has the custom_id {custom_id[:_SHOWN]!r}.", number
                )
            if model != found.model:
                wanted = f"body.model: it must be {found.model[:_SHOWN]!r}, as in the first record."
                return Problem("model_mismatch", wanted, number)
            return None


class _Seen:
    """The custom_ids so far: digests, in a temporary database that SQLite moves to the disk as it grows."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.execute("CREATE TABLE seen (digest BLOB PRIMARY KEY) WITHOUT ROWID")
        self._connection.execute("BEGIN")

    def add(self, custom_id: str) -> bool:
        """Add a custom_id; False if it is there already."""
        digest = hashlib.blake2b(custom_id.encode(), digest_size=16).digest()
        return self._connection.execute("INSERT OR IGNORE INTO seen VALUES (?)", (digest,)).rowcount == 1

    def close(self) -> None:
        self._connection.close()
