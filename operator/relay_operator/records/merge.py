"""Makes one line per custom_id of the result files of all rounds and parts."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field

from relay_operator.records.ids import Ids
from relay_operator.records.lines import Block, lines
from relay_operator.records.pace import Pace
from relay_operator.records.pieces import gathered
from relay_operator.records.problems import ProblemCode as Code
from relay_operator.records.problems import Problems, RecordProblem
from relay_operator.records.results import LONGEST_RESULT, Open, Reasons, custom_id_of, failure_of

_ROUND = 1 << 40
"""A line's mark is its round, from 1, times this, plus a running number: which round answered can be read off it."""


@dataclass(frozen=True, slots=True)
class PartFiles:
    """One cloud batch: what was sent, and what came back, as far as there is something."""

    input: Open
    output: Open | None
    errors: Open | None


Round = Sequence[PartFiles]
"""The batches of one sending. The first round has all records, each later one those that were sent again."""


@dataclass(slots=True)
class Merged:
    """What was published; whole once both streams have ended."""

    records: int = 0
    succeeded: int = 0
    failed: int = 0
    reasons: Reasons = field(default_factory=Reasons)
    """Why those that failed did."""
    problems: Problems = field(default_factory=Problems)
    """Lines of result files that are in neither stream and that no later round explains."""

    @property
    def unanswered(self) -> int:
        """Records without any line: cancelled, or lost by the cloud."""
        return self.records - self.succeeded - self.failed


@dataclass(frozen=True, slots=True)
class _File:
    """Where a line stands."""

    kind: str
    round: int
    part: int

    def __str__(self) -> str:
        return f"{self.kind} file of part {self.part}, round {self.round}"


class Merge:
    """Two streams, to be read one after the other, each once: `outputs`, then `errors`.

    Every success of any round is an output. A record that failed has the error of the last round that answered it; what
    earlier rounds said of it is left out. Of two lines for one record where no later round explains it, and of lines
    that belong to no record, the first counts and the others are problems: never doubled, never dropped silently.
    There is at least one round, and the set of ids is empty.
    """

    def __init__(self, rounds: Sequence[Round], ids: Ids, pace: Pace) -> None:
        self.merged = Merged()
        self._rounds = rounds
        self._ids = ids
        self._pace = pace
        self._marks = 0
        self._outputs_read = False

    def outputs(self) -> AsyncIterator[bytes]:
        """Lines of records that succeeded, by round, part and place in their file."""
        return gathered(self._outputs())

    def errors(self) -> AsyncIterator[bytes]:
        """Lines of records that failed, the last round first.

        Raises:
            RuntimeError: before `outputs` has ended, since a success outdoes an error.

        """
        return gathered(self._errors())

    async def _outputs(self) -> AsyncIterator[bytes]:
        await self._know()
        for number, parts in enumerate(self._rounds, 1):
            for part, files in enumerate(parts, 1):
                async for chosen in self._chosen(files.output, _File("output", number, part)):
                    self.merged.succeeded += len(chosen)
                    yield b"\n".join([*chosen, b""])
        self._outputs_read = True

    async def _errors(self) -> AsyncIterator[bytes]:
        if not self._outputs_read:
            raise RuntimeError("read the outputs to their end before the errors")
        for number, parts in reversed(list(enumerate(self._rounds, 1))):
            for part, files in enumerate(parts, 1):
                async for chosen in self._chosen(files.errors, _File("error", number, part)):
                    self.merged.failed += len(chosen)
                    for line in chosen:
                        self.merged.reasons.add(failure_of(line))
                    yield b"\n".join([*chosen, b""])

    async def _know(self) -> None:
        """Learn which records there are: those of the first round."""
        for part, files in enumerate(self._rounds[0], 1):
            place = _File("input", 1, part)
            async for block in lines(files.input(), self._pace):
                self._ids.put([custom_id for _, _, custom_id in self._named(block, place)])
        self.merged.records = len(self._ids)

    async def _chosen(self, opened: Open | None, file: _File) -> AsyncIterator[list[bytes]]:
        """The lines of one file that are the first for their records."""
        if opened is None:
            return
        async for block in lines(opened(), self._pace, LONGEST_RESULT):
            named = list(self._named(block, file))
            first = file.round * _ROUND + self._marks + 1
            self._marks += len(named)
            refused = dict(self._ids.claim([each for _, _, each in named], range(first, first + len(named))))
            for index, mark in refused.items():
                self._left_out(named[index][0], mark, file)
            if chosen := [line for index, (_, line, _) in enumerate(named) if index not in refused]:
                yield chosen

    def _named(self, block: Block, file: _File) -> Iterator[tuple[int, bytes, str]]:
        """Line numbers, lines and their ids."""
        for number in block.too_long:
            self._problem(number, Code.LINE_TOO_LONG, file, "too long to be read")
        for number, line in enumerate(block.lines, block.first):
            if not line or line.isspace():
                continue
            if (custom_id := custom_id_of(line)) is None:
                self._problem(number, Code.MISSING_CUSTOM_ID, file, "not an object with a custom_id")
            else:
                yield number, line, custom_id

    def _left_out(self, number: int, mark: int | None, file: _File) -> None:
        if mark is None:
            self._problem(number, Code.UNKNOWN_CUSTOM_ID, file, "a custom_id that is not in the input")
        elif mark // _ROUND <= file.round:
            self._problem(number, Code.DUPLICATE_CUSTOM_ID, file, "a second answer to its custom_id")

    def _problem(self, number: int, code: Code, file: _File, what: str) -> None:
        self.merged.problems.add(RecordProblem(number, code, f"in the {file}: {what}"))
