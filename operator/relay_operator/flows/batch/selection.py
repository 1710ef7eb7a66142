"""Selects the records to send again: retryable failures, and records without an answer."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from relay_client import Cloud
from relay_operator.api.inferencebatch import InferenceBatch, PartStatus
from relay_operator.api.inferencebatch_spec import RecordRetry
from relay_operator.flows.batch.files import TooFewError, opened
from relay_operator.flows.batch.predicates import counted
from relay_operator.records.ids import Ids
from relay_operator.records.lines import lines
from relay_operator.records.pace import Pace
from relay_operator.records.results import (
    LONGEST_RESULT,
    Failures,
    Open,
    Reasons,
    RetryableFailures,
    custom_id_of,
    failures,
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The records to send again, as they were sent before."""

    records: AsyncIterator[list[bytes]]
    retried: int
    """How many of the records had failed."""
    reasons: Reasons
    """Why records of the last round failed, whether selected or not."""


async def select(obj: InferenceBatch, cloud: Cloud, ids: Ids, pace: Pace, *, doubted: bool = False) -> Chosen:
    """Select from the last round that has results; fills the given, empty set of ids.

    `doubted`: the files had fewer results than the cloud counts, and are read for the second time. Failures that are
    missing again stay failures; without answers that are missing nothing can be selected.

    Raises TooFewError, CloudError, NoTemporarySpace.
    """
    number = obj.status.round or 1
    last = [part for part in obj.status.parts or () if part.round == number - 1]
    # After the last attempt, a round that resumes a suspended one sends no failed records.
    policy = _NEVER if obj.status.only_unanswered else retry_policy(obj.spec.retry_policy)
    inputs = [opened(cloud, part.input_file_id) for part in last if part.input_file_id]
    errors = [opened(cloud, part.error_file_id) for part in last if part.error_file_id]
    counts, failed_once = counted(obj.status), sum(part.failed for part in last)

    async def failed_into(chosen: Ids) -> Failures:
        found = await failures(errors, policy, chosen, pace)
        if not doubted:
            _must_have("failures", failed_once, found.reasons.counts.total())
        return found

    if counts.completed + counts.failed >= counts.total and _adds_up(last):
        found = await failed_into(ids)
        if found.reasons.counts.total() <= failed_once:
            return Chosen(picked(inputs, ids, pace), found.retried, found.reasons)
        ids.clear()  # some records have more than one line, and one of them may be a paid answer
    with Ids() as failed:
        found = await failed_into(failed)
        outputs = [opened(cloud, part.output_file_id) for part in last if part.output_file_id]
        for file in outputs:
            await _note(file, ids, pace)
        completed = sum(part.completed for part in last)
        _must_have("answers", completed, len(ids))
        for file in errors:
            await _note(file, ids, pace, _OF_ERRORS, but=failed)
    retried = min(found.retried - found.expired, failed_once)
    return Chosen(_without_result(inputs, ids, pace, completed), retried, found.reasons)


def _adds_up(parts: Sequence[PartStatus]) -> bool:
    """Whether no record can have both an answer and an error, by the cloud's counts."""
    return sum(part.completed + part.failed for part in parts) <= sum(part.records for part in parts)


def retry_policy(spec: RecordRetry | None) -> RetryableFailures:
    """The policy of a spec; codes that are numbers are HTTP statuses."""
    if spec is None or spec.codes is None:
        return RetryableFailures()
    statuses = frozenset(int(code) for code in spec.codes if code.isascii() and code.isdigit())
    return RetryableFailures(statuses, frozenset(code for code in spec.codes if not code.isdigit()))


_OF_ERRORS = 1
"""The mark of ids that have only an error; those of answers have none."""
_NEVER = RetryableFailures(frozenset(), frozenset())


def _must_have(what: str, counted: int, found: int) -> None:
    """Raises TooFewError if results are missing: records with paid answers would be sent, and paid for, again."""
    if found < counted:
        text = f"the cloud counts {counted} {what}, and its files have {found}: which records are paid for is unknown"
        raise TooFewError(text)


async def _note(file: Open, ids: Ids, pace: Pace, mark: int = 0, *, but: Ids | None = None) -> None:
    """Add the ids of a file with this mark, except those in the other set."""
    async for block in lines(file(), pace, LONGEST_RESULT):
        named = [custom_id for line in block.lines if (custom_id := custom_id_of(line)) is not None]
        held = but.holds(named) if but is not None else [False] * len(named)
        ids.put([custom_id for custom_id, is_held in zip(named, held, strict=True) if not is_held], mark)


async def picked(parts: Sequence[Open], ids: Ids, pace: Pace) -> AsyncIterator[list[bytes]]:
    """The records of these parts, unchanged and in order, whose id is in the set: for a `split.Splitter`."""
    async for named in _records(parts, pace):
        held = ids.holds([custom_id for _, custom_id in named])
        if chosen := [line for (line, _), is_held in zip(named, held, strict=True) if is_held]:
            yield chosen


async def _without_result(parts: Sequence[Open], ids: Ids, pace: Pace, completed: int) -> AsyncIterator[list[bytes]]:
    """The records of these parts, as `picked`, whose id is not in the set.

    Raises StoppedError at the end if fewer than `completed` of the records have an answer: some ids in the cloud's
    files are of no record, and whose answers these are is unknown.
    """
    number, answered = _OF_ERRORS, 0
    async for named in _records(parts, pace):
        names = [custom_id for _, custom_id in named]
        others = dict(ids.claim(names, range(number + 1, number + 1 + len(names))))
        number, answered = number + len(names), answered + len(names) - len(others)
        if chosen := [named[index][0] for index, mark in others.items() if mark is None]:
            yield chosen
    _must_have("answers", completed, answered)


async def _records(parts: Sequence[Open], pace: Pace) -> AsyncIterator[list[tuple[bytes, str]]]:
    """Each record's line, with its id."""
    for part in parts:
        async for block in lines(part(), pace):
            yield [(line, custom_id) for line in block.lines if (custom_id := custom_id_of(line)) is not None]
