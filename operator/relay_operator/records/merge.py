"""Writes one line per custom_id from the result files of all rounds and parts."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from relay_operator.records.density import is_dense
from relay_operator.records.ids import Ids
from relay_operator.records.lines import Block, lines
from relay_operator.records.pace import Pace
from relay_operator.records.pieces import gathered
from relay_operator.records.problems import ProblemCode as Code
from relay_operator.records.problems import Problems, RecordProblem
from relay_operator.records.results import LONGEST_RESULT, Open, Reasons, custom_id_of, failure_of
from relay_operator.records.step import InStep, Lines

_ROUND = 1 << 40
"""A line's mark is its round, from 1, times this, plus a running number; so a mark shows which round answered."""


@dataclass(frozen=True, slots=True)
class PartFiles:
    """One cloud batch: what was sent, and what came back, as far as it exists."""

    input: Open | None
    """None if the cloud has lost it."""
    output: Open | None
    errors: Open | None


Round = Sequence[PartFiles]
"""The batches of one round. The first has all records, each later one those that were sent again."""


@dataclass(slots=True)
class Merged:
    """What was published; complete once both streams have ended."""

    records: int = 0
    succeeded: int = 0
    failed: int = 0
    reasons: Reasons = field(default_factory=Reasons)
    """Why records failed."""
    problems: Problems = field(default_factory=Problems)
    """Lines of result files that are in neither stream, and that no later round explains."""

    @property
    def unanswered(self) -> int:
        """Records without a result: cancelled, or lost by the cloud."""
        return self.records - self.succeeded - self.failed


@dataclass(frozen=True, slots=True)
class _File:
    """Where a line comes from."""

    kind: str
    round: int
    part: int

    def __str__(self) -> str:
        return f"{self.kind} file of part {self.part}, round {self.round}"


class Merge:
    """Two streams, read one after the other, each once: `outputs`, then `errors`.

    Every success of any round is an output. A failed record has the error of the last round that answered it; those of
    earlier rounds are left out. Of two lines for one record that no later round explains, the first counts; the other
    is a problem, as is a line that belongs to no record: nothing is doubled, and nothing dropped silently.
    There is at least one round, and the set of ids starts empty. `records` is how many were sent, as far as is known:
    if the cloud has lost a file of records, what is left may show fewer.
    """

    def __init__(self, rounds: Sequence[Round], ids: Ids, pace: Pace, records: int = 0) -> None:
        self.merged = Merged(records)
        self._rounds = rounds
        self._ids = ids
        self._pace = pace
        self._marks = 0
        self._in_step = 0
        """Records answered in step, and therefore not in the set of ids."""
        self.outputs_read = False
        """Whether `outputs` has ended."""

    def outputs(self) -> AsyncIterator[bytes]:
        """The lines of successful records, by round, part and place in their file."""
        return gathered(self._outputs())

    def errors(self) -> AsyncIterator[bytes]:
        """The lines of failed records, the last round first. Raises RuntimeError before `outputs` has ended."""
        return gathered(self._errors())

    async def _outputs(self) -> AsyncIterator[bytes]:
        async for chosen in self._first_outputs():
            yield self._succeeded(chosen)
        for number, parts in enumerate(self._rounds[1:], 2):
            for part, files in enumerate(parts, 1):
                file = _File("output", number, part)
                async for chosen in self._first_lines(self._read(files.output, file), file):
                    yield self._succeeded(chosen)
        self.outputs_read = True

    def _succeeded(self, lines: Sequence[bytes]) -> bytes:
        self.merged.succeeded += len(lines)
        return b"\n".join([*lines, b""])

    async def _first_outputs(self) -> AsyncIterator[Sequence[bytes]]:
        """The first round's lines: in step with the records while both have the same order, then by the set of ids."""
        parts = self._rounds[0]
        in_step = all(files.input is not None for files in parts)
        if not in_step:
            await self._know(1)
        for part, files in enumerate(parts, 1):
            file = _File("output", 1, part)
            answers = self._read(files.output, file)
            if in_step:
                step = InStep(answers)
                async for chosen in self._stepped(step, part):
                    yield chosen
                answers, in_step = step.rest(), await step.has_ended()
                if not in_step:
                    await self._know(part + 1)
            async for chosen in self._first_lines(answers, file):
                yield chosen

    async def _stepped(self, step: InStep, part: int) -> AsyncIterator[Sequence[bytes]]:
        """The lines that answer the records in order; only unanswered records go into the set of ids."""
        async for records in self._read(self._rounds[0][part - 1].input, _File("input", 1, part)):
            async for chosen, others in step.answered(records.ids):
                self._in_step += len(chosen)
                if others:
                    self._ids.put(others)
                if chosen:
                    yield chosen
        self._count()

    async def _errors(self) -> AsyncIterator[bytes]:
        if not self.outputs_read:
            raise RuntimeError("read the outputs to their end before the errors")
        for number, parts in reversed(list(enumerate(self._rounds, 1))):
            for part, files in enumerate(parts, 1):
                file = _File("error", number, part)
                async for chosen in self._first_lines(self._read(files.errors, file), file):
                    self.merged.failed += len(chosen)
                    for line in chosen:
                        self.merged.reasons.add(failure_of(line))
                    yield b"\n".join([*chosen, b""])

    async def _know(self, first: int, mark: int = 0) -> None:
        """Add the records to the set of ids, from this part of the first round on."""
        for opened, file in self._sent(first):
            async for records in self._read(opened, file):
                self._ids.put(records.ids, mark)
        if not mark:
            self._count()

    def _sent(self, first: int) -> Iterator[tuple[Open | None, _File]]:
        """The files that show which records there are.

        If the records sent are gone, their results show some, and the later rounds those without a result.
        """
        lost = any(files.input is None for files in self._rounds[0])
        for number, parts in enumerate(self._rounds if lost else self._rounds[:1], 1):
            for part, files in enumerate(parts[first - 1 :], first):
                for opened in (files.output, files.errors) if files.input is None else (files.input,):
                    yield opened, _File("input", number, part)

    def _count(self) -> None:
        self.merged.records = max(self.merged.records, self._in_step + len(self._ids))

    async def _first_lines(self, results: AsyncIterator[Lines], file: _File) -> AsyncIterator[Sequence[bytes]]:
        """The lines that are the first for their records, judged by the set of ids."""
        async for found in results:
            refused = await self._refused(found, file)
            for index, mark in refused.items():
                self._left_out(found.numbers[index], mark, file)
            if not refused:
                yield found.lines
            elif chosen := [line for index, line in enumerate(found.lines) if index not in refused]:
                yield chosen

    async def _refused(self, found: Lines, file: _File) -> dict[int, int | None]:
        """Index of each line that is not the first for its record, with the first one's mark; None: no such record."""
        first = file.round * _ROUND + self._marks + 1
        self._marks += len(found.ids)
        refused = dict(self._ids.claim(found.ids, range(first, first + len(found.ids))))
        unknown = [index for index, mark in refused.items() if mark is None]
        if unknown and self._in_step:
            # An id outside the set was either answered in step or never sent; only now does the difference matter.
            await self._know(1, mark=_ROUND)
            self._in_step = 0
            again = self._ids.claim([found.ids[index] for index in unknown], [first] * len(unknown))
            refused |= {unknown[index]: mark for index, mark in again}
        return refused

    async def _read(self, opened: Open | None, file: _File) -> AsyncIterator[Lines]:
        """The lines of a file that have an id; each one without an id becomes a problem."""
        if opened is None:
            return
        async for block in lines(opened(), self._pace, LONGEST_RESULT):
            yield self._named(block, file)

    def _named(self, block: Block, file: _File) -> Lines:
        ids = [custom_id_of(line) or "" for line in block.lines]
        for number in block.too_long:
            self._problem(number, Code.LINE_TOO_LONG, file, "too long to be read")
        if all(ids):
            return Lines(range(block.first, block.first + len(ids)), block.lines, ids)
        for number, (line, custom_id) in enumerate(zip(block.lines, ids, strict=True), block.first):
            if not custom_id and line and not line.isspace():
                what = "no custom_id before its many values" if is_dense(line) else "not an object with a custom_id"
                self._problem(number, Code.MISSING_CUSTOM_ID, file, what)
        named = [index for index, custom_id in enumerate(ids) if custom_id]
        return Lines(
            [block.first + index for index in named],
            [block.lines[index] for index in named],
            [ids[index] for index in named],
        )

    def _left_out(self, number: int, mark: int | None, file: _File) -> None:
        if mark is None:
            self._problem(number, Code.UNKNOWN_CUSTOM_ID, file, "a custom_id that is not in the input")
        elif mark // _ROUND <= file.round:
            self._problem(number, Code.DUPLICATE_CUSTOM_ID, file, "a second answer to its custom_id")

    def _problem(self, number: int, code: Code, file: _File, what: str) -> None:
        self.merged.problems.add(RecordProblem(number, code, f"in the {file}: {what}"))
