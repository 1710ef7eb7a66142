"""Turns the input's bytes into records to send, and collects everything that is wrong with the input."""

from collections.abc import AsyncIterable, AsyncIterator, Iterator
from dataclasses import dataclass, field

from relay_operator.records.check import Expected, check, too_long
from relay_operator.records.ids import Ids
from relay_operator.records.lines import Block, lines
from relay_operator.records.pace import Pace
from relay_operator.records.problems import ProblemCode, Problems, RecordProblem

GROUP_BYTES = 256 * 1024
"""Bytes of records per group, approximately; a tool configuration makes records longer than their lines."""


class RecordsRefused(Exception):
    """A record of the input is invalid, so no record is sent."""


@dataclass(slots=True)
class Findings:
    """What is known of the input so far; complete once `Intake.rest` has returned."""

    records: int = 0
    """Records that can be sent."""
    problems: Problems = field(default_factory=Problems)


@dataclass(slots=True)
class _Group:
    """Some records of one block, in order."""

    ids: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)
    problems: list[RecordProblem] = field(default_factory=list)


class Intake:
    """One reading of an input, with an empty set of ids.

    `records` ends at the first problem, so that no more is uploaded; `rest` always reads to the end, so that people see
    all problems at once.
    """

    def __init__(self, chunks: AsyncIterable[bytes], expected: Expected, ids: Ids, pace: Pace) -> None:
        self.findings = Findings()
        self._expected = expected
        self._ids = ids
        self._pace = pace
        self._reading = self._read(lines(chunks, pace, expected.longest))

    async def records(self) -> AsyncIterator[list[bytes]]:
        """The records as sent, in order, without line ends. Raises RecordsRefused at the first problem."""
        async for records in self._reading:
            self._refuse()
            yield records
        self._refuse()

    async def rest(self) -> Findings:
        """Read the rest of the input, and return the findings of all of it."""
        async for _ in self._reading:
            pass
        return self.findings

    def _refuse(self) -> None:
        if self.findings.problems.total:
            raise RecordsRefused(f"the input has problems, the first in {self.findings.problems.first[0]}")

    async def _read(self, blocks: AsyncIterator[Block]) -> AsyncIterator[list[bytes]]:
        async for block in blocks:
            for group in _judged(block, self._expected):
                self._find(group)
                yield group.records
                await self._pace.turn()
        if not self.findings.records and not self.findings.problems.total:
            self.findings.problems.add(RecordProblem(0, ProblemCode.EMPTY_FILE, "the input has no records"))

    def _find(self, group: _Group) -> None:
        """Find repeated ids, and count records and problems."""
        repeated = self._ids.add(group.ids, group.numbers)
        for index, earlier in repeated:
            message = f"the custom_id is that of line {earlier}; each must be unique"
            group.problems.append(RecordProblem(group.numbers[index], ProblemCode.DUPLICATE_CUSTOM_ID, message))
        for problem in sorted(group.problems, key=lambda problem: problem.line):
            self.findings.problems.add(problem)
        self.findings.records += len(group.records) - len(repeated)


def _judged(block: Block, expected: Expected) -> Iterator[_Group]:
    """The block's records in groups of about `GROUP_BYTES`."""
    group, size = _Group(), 0
    for number in block.too_long:
        group.problems.append(RecordProblem(number, ProblemCode.LINE_TOO_LONG, too_long(expected.longest)))
    for number, line in enumerate(block.lines, block.first):
        if not line or line.isspace():
            continue
        judged = check(line, number, expected)
        if isinstance(judged, RecordProblem):
            group.problems.append(judged)
            continue
        custom_id, record = judged
        group.ids.append(custom_id)
        group.numbers.append(number)
        group.records.append(record)
        size += len(record)
        if size > GROUP_BYTES:
            yield group
            group, size = _Group(), 0
    yield group
