"""Reads answers in step with their records: while both are in the same order, no set of ids is needed. Pure."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

GROUP_BYTES: Final = 256 * 1024
"""Bytes of answers after which a group ends with the lines that were read with them."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Some lines of a file, with their numbers and custom_ids."""

    numbers: Sequence[int]
    lines: Sequence[bytes]
    ids: Sequence[str]


_NONE = Lines((), (), ())


class InStep:
    """The answers of one batch beside its records; in step, each record has at most one answer.

    An answer to an earlier record is never reached: it blocks all answers behind it, and together they are `rest`.
    """

    def __init__(self, answers: AsyncIterator[Lines]) -> None:
        self._answers = answers
        self._held = _NONE
        self._at = 0
        """How many of the held answers are taken."""
        self._ended = False

    async def answered(self, records: Sequence[str]) -> AsyncIterator[tuple[list[bytes], list[str]]]:
        """The answers to these records, which follow those of the last call, and the ids of unanswered records.

        In groups of about `GROUP_BYTES`, since answers may be far longer than their records.
        """
        answers, size, others = list[bytes](), 0, list[str]()
        ids, at = self._held.ids, self._at
        for custom_id in records:
            if at == len(ids):
                if size >= GROUP_BYTES:
                    self._at = at
                    yield answers, others
                    answers, size, others = [], 0, []
                ids, at = await self._more(), 0
            if at < len(ids) and ids[at] == custom_id:
                answers.append(self._held.lines[at])
                size += len(answers[-1])
                at += 1
            else:
                others.append(custom_id)
        self._at = at
        yield answers, others

    async def has_ended(self) -> bool:
        """Whether all answers were reached."""
        if self._at == len(self._held.ids):
            await self._more()
        return not self._held.ids

    async def rest(self) -> AsyncIterator[Lines]:
        """The answers that were not reached."""
        while not await self.has_ended():
            held, at, self._at = self._held, self._at, len(self._held.ids)
            yield Lines(held.numbers[at:], held.lines[at:], held.ids[at:])

    async def _more(self) -> Sequence[str]:
        """The ids of the next lines; empty at the end."""
        self._held, self._at = _NONE, 0
        while not (self._held.ids or self._ended):
            try:
                self._held = await anext(self._answers)
            except StopAsyncIteration:
                self._ended = True
        return self._held.ids
