"""Long work: the results of all rounds become one line for each record, where people asked for them."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import groupby

from relay_client import Cloud, NotFound
from relay_client.operations import GET_FILE
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent
from relay_operator.batches.destinations import Destinations
from relay_operator.batches.selection import opened
from relay_operator.batches.work import Published, Refused, StoppedError
from relay_operator.kinds.inferencebatch import (
    SHOWN_PROBLEMS,
    InferenceBatch,
    InferenceBatchStatus,
    OutputStatus,
    PartStatus,
    Problem,
    RequestCounts,
)
from relay_operator.records.ids import Ids
from relay_operator.records.merge import Merge, PartFiles, Round
from relay_operator.records.pace import Pace
from relay_operator.records.results import Open

FILE_LOST = "file_lost"


@dataclass(slots=True)
class Publishing:
    """Publishes; doing it again writes the same bytes."""

    destinations: Destinations
    pace: Pace

    async def publish(self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent) -> Published | Refused:
        """Raises StoppedError, CloudError, KubeError, NoTemporarySpace."""
        lost, rounds = await self._rounds(obj.status, cloud)
        there = any(part.output or part.errors for parts in rounds for part in parts)
        if lost and (not there or await self.destinations.occupied(obj)):
            # Nothing, or a part, must not replace what was published whole before the files were deleted.
            text = f"{lost[0].message}; what is at the output is left as it is"
            return Refused(Reason.RESULTS_LOST, text, tuple(lost[:SHOWN_PROBLEMS]))
        try:
            with Ids() as ids:
                merge = Merge(rounds, ids, self.pace)
                output = await self.destinations.write(obj, merge, intent.token)
        except StoppedError as stopped:
            raise StoppedError(replace(stopped.came, message=f"{stopped.came.message}; {how_to_fetch(obj)}")) from None
        return _published(output, merge, lost)

    async def _rounds(self, status: InferenceBatchStatus, cloud: Cloud) -> tuple[list[Problem], list[Round]]:
        """What there is of every round, and what the cloud has lost."""
        lost: list[Problem] = []
        rounds: list[Round] = []
        parts = sorted(status.parts or (), key=lambda part: (part.round, part.part))
        for _, group in groupby(parts, key=lambda part: part.round):
            rounds.append([await self._files(part, cloud, lost) for part in group])
        return lost, rounds

    async def _files(self, part: PartStatus, cloud: Cloud, lost: list[Problem]) -> PartFiles:
        output = await self._there(part.output_file_id, cloud, lost)
        errors = await self._there(part.error_file_id, cloud, lost)
        if part.input_file_id and await self._exists(part.input_file_id, cloud):
            return PartFiles(opened(cloud, part.input_file_id), output, errors)
        # Where the records that were sent are gone, the results themselves say which there were.
        return PartFiles(_chained(output, errors), output, errors)

    async def _there(self, file_id: str | None, cloud: Cloud, lost: list[Problem]) -> Open | None:
        if not file_id:
            return None
        if await self._exists(file_id, cloud):
            return opened(cloud, file_id)
        lost.append(Problem(code=FILE_LOST, message=f"the cloud does not have its file {file_id} any more"))
        return None

    async def _exists(self, file_id: str, cloud: Cloud) -> bool:
        try:
            await cloud.call(GET_FILE, id=file_id)
        except NotFound:
            return False
        return True


def _chained(*files: Open | None) -> Open:
    async def pieces() -> AsyncIterator[bytes]:
        for file in files:
            if file is not None:
                async for piece in file():
                    yield piece

    return pieces


def _published(output: OutputStatus, merge: Merge, lost: list[Problem]) -> Published:
    merged = merge.merged
    odd = [
        Problem(line=problem.line or None, code=problem.code, message=problem.message[:512])
        for problem in merged.problems.first
    ]
    lines = merged.succeeded + merged.failed
    return Published(
        output=output.model_copy(update={"lines": lines}),
        counts=RequestCounts(total=merged.records, completed=merged.succeeded, failed=merged.failed),
        unanswered=merged.unanswered,
        lost=len(lost),
        problems=tuple([*lost, *odd][:SHOWN_PROBLEMS]),
    )


def how_to_fetch(obj: InferenceBatch) -> str:
    """The sentence for results that could not be published."""
    files = [
        file_id
        for part in obj.status.parts or ()
        for file_id in (part.output_file_id, part.error_file_id)
        if file_id is not None
    ]
    shown = ", ".join(files[:6]) + (", ... (status.parts)" if len(files) > 6 else "")
    return f"the cloud keeps the results: GET /v1/files/<id>/content of its inference API, with the id {shown}"
