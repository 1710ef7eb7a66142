"""Selects the records to send again: retryable failures, and records without an answer."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch
from relay_operator.api.inferencebatch_spec import RecordRetry
from relay_operator.flows.batch.files import opened
from relay_operator.flows.batch.predicates import counted
from relay_operator.flows.batch.result import StoppedError, WorkRefused
from relay_operator.records.ids import Ids
from relay_operator.records.lines import lines
from relay_operator.records.pace import Pace
from relay_operator.records.results import LONGEST_RESULT, Open, Reasons, RetryableFailures, custom_id_of, failures


@dataclass(frozen=True, slots=True)
class Chosen:
    """The records to send again, as they were sent before."""

    records: AsyncIterator[list[bytes]]
    retried: int
    """How many of the records had failed."""
    reasons: Reasons
    """Why records of the last round failed, whether selected or not."""


async def select(obj: InferenceBatch, cloud: Cloud, ids: Ids, pace: Pace) -> Chosen:
    """Select from the last round that has results; fills the given, empty set of ids.

    Raises StoppedError, CloudError, NoTemporarySpace.
    """
    number = obj.status.round or 1
    last = [part for part in obj.status.parts or () if part.round == number - 1]
    # After the last attempt, a round that resumes a suspended one sends no failed records.
    policy = _NEVER if obj.status.only_unanswered else retry_policy(obj.spec.retry_policy)
    inputs = [opened(cloud, part.input_file_id) for part in last if part.input_file_id]
    errors = [opened(cloud, part.error_file_id) for part in last if part.error_file_id]
    counts = counted(obj.status)
    if counts.completed + counts.failed >= counts.total:
        found = await failures(errors, policy, ids, pace)
        return Chosen(picked(inputs, ids, pace), found.retried, found.reasons)
    with Ids() as failed:
        found = await failures(errors, policy, failed, pace)
        outputs = [opened(cloud, part.output_file_id) for part in last if part.output_file_id]
        for file in outputs:
            await _note(file, ids, pace)
        _must_have(sum(part.completed for part in last), len(ids))
        for file in errors:
            await _note(file, ids, pace, but=failed)
    retried = min(found.retried - found.expired, sum(part.failed for part in last))
    return Chosen(picked(inputs, ids, pace, within=False), retried, found.reasons)


def retry_policy(spec: RecordRetry | None) -> RetryableFailures:
    """The policy of a spec; codes that are numbers are HTTP statuses."""
    if spec is None or spec.codes is None:
        return RetryableFailures()
    statuses = frozenset(int(code) for code in spec.codes if code.isascii() and code.isdigit())
    return RetryableFailures(statuses, frozenset(code for code in spec.codes if not code.isdigit()))


_NEVER = RetryableFailures(frozenset(), frozenset())


def _must_have(counted: int, found: int) -> None:
    """Raises StoppedError if paid answers are missing: their records would be sent, and paid for, again."""
    if found < counted:
        text = f"the cloud counts {counted} answers, and its files have {found}: which records are paid for is unknown"
        raise StoppedError(WorkRefused(Reason.RESULTS_LOST, text))


async def _note(file: Open, ids: Ids, pace: Pace, *, but: Ids | None = None) -> None:
    """Add the ids of a file, except those in the other set."""
    async for block in lines(file(), pace, LONGEST_RESULT):
        named = [custom_id for line in block.lines if (custom_id := custom_id_of(line)) is not None]
        held = but.holds(named) if but is not None else [False] * len(named)
        ids.put([custom_id for custom_id, is_held in zip(named, held, strict=True) if not is_held])


async def picked(parts: Sequence[Open], ids: Ids, pace: Pace, *, within: bool = True) -> AsyncIterator[list[bytes]]:
    """The records of these parts, unchanged and in order, whose id is in the set, or is not: for a `split.Splitter`."""
    for part in parts:
        async for block in lines(part(), pace):
            named = [(line, custom_id) for line in block.lines if (custom_id := custom_id_of(line)) is not None]
            held = ids.holds([custom_id for _, custom_id in named])
            if chosen := [line for (line, _), is_held in zip(named, held, strict=True) if is_held is within]:
                yield chosen
