"""Long work: merges the results of all rounds into one line per record, and writes them to the output."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby

from relay_client import Cloud, NotFound
from relay_client.errors import clause
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import (
    SHOWN_PROBLEMS,
    InferenceBatch,
    InferenceBatchStatus,
    OutputStatus,
    PartStatus,
    Problem,
    RequestCounts,
)
from relay_operator.api.inferencebatch_spec import OnExisting
from relay_operator.api.meta import CreateIntent
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.files import FILE_LOST, LostFiles, TooFewError, files_of, opened, results_of
from relay_operator.flows.batch.predicates import MISPLACED, counted, unread
from relay_operator.flows.batch.result import Published, StoppedError, WorkRefused, WorkTroubled, frequent, shown
from relay_operator.records.ids import Ids
from relay_operator.records.merge import Merge, Merged, PartFiles, Round
from relay_operator.records.pace import Pace
from relay_operator.records.results import Open


@dataclass(slots=True)
class Publishing:
    """Publishes; a repetition writes the same bytes."""

    destinations: Destinations
    lost_files: LostFiles
    pace: Pace
    wall_clock: Callable[[], datetime]

    async def publish(self, obj: InferenceBatch, cloud: Cloud, intent: CreateIntent) -> Published | WorkRefused:
        """Merge and write all results. Raises StoppedError, CloudError, KubeError, NoTemporarySpace."""
        try:
            if _only_the_answers_so_far(obj) and await self.destinations.has_later(obj, intent):
                text = f"a newer batch's answers are at the output, and are not overwritten; {_how_to_fetch(obj)}"
                return WorkRefused(Reason.OUTPUT_EXISTS, text)
            gone = await self.lost_files.missing(cloud, files_of(obj.status.parts or ()))
            return await self._written(obj, cloud, intent, gone)
        except StoppedError as stopped:
            raise StoppedError(unpublished(stopped.came, obj)) from None

    async def _written(
        self,
        obj: InferenceBatch,
        cloud: Cloud,
        intent: CreateIntent,
        gone: frozenset[str],
        *,
        again: bool = False,
        doubted: bool = False,
    ) -> Published | WorkRefused:
        """Write all but what is gone, and `again` if some of it was written before more turned out to be gone.

        `doubted`: the files had fewer results than the cloud counts, and are read for the second time.
        """
        lost, rounds = _rounds(obj.status, cloud, gone)
        there = any(part.output or part.errors for parts in rounds for part in parts)
        if lost and not (there and (again or not await self.destinations.occupied(obj))):
            # An empty or partial output must not replace a whole one that was published before the files were deleted.
            if (before := await self.destinations.published(obj, intent.token)) is not None:
                return before
            text = f"{clause(lost[0].message)}; what is at the output is left as it is"
            return WorkRefused(Reason.RESULTS_LOST, text, tuple(lost[:SHOWN_PROBLEMS]))
        with Ids() as ids:
            merge = Merge(rounds, ids, self.pace, obj.status.input.records if obj.status.input is not None else 0)

            def ended(output: OutputStatus) -> Published:
                few = "" if lost else _too_few(obj.status, merge.merged)
                if few and not doubted:
                    raise TooFewError(few)
                came = _published(output, merge, lost, few, obj.status, self.wall_clock())
                return replace(came, begun=intent.started_at)

            try:
                return await self.destinations.write(obj, merge, intent.token, ended)
            except TooFewError:
                await self.lost_files.wait()
                empty, doubted = frozenset[str](), True
            except NotFound as absent:
                there_yet = (file_id for file_id in files_of(obj.status.parts or ()) if file_id not in gone)
                empty = await self.lost_files.lacking(absent, cloud, there_yet)
                if not empty:
                    raise
        begun = merge.outputs_read and obj.spec.output.config_map_ref is None
        return await self._written(obj, cloud, intent, gone | empty, again=again or begun, doubted=doubted)


def _only_the_answers_so_far(obj: InferenceBatch) -> bool:
    """Whether they would overwrite what is there though the batch is being deleted: a schedule has begun the next."""
    return obj.metadata.deletion_timestamp is not None and obj.spec.output.on_existing is OnExisting.REPLACE


def _rounds(status: InferenceBatchStatus, cloud: Cloud, gone: Collection[str]) -> tuple[list[Problem], list[Round]]:
    """Problems for the files that the cloud has lost, or never had, and the remaining files of every round."""
    parts = sorted(status.parts or (), key=lambda part: (part.round, part.part))
    rounds: list[Round] = [
        [_files(part, cloud, gone) for part in group] for _, group in groupby(parts, key=lambda part: part.round)
    ]
    lost = [
        f"the cloud does not have its file {file_id} any more"
        for part in parts
        for file_id in results_of(part)
        if file_id in gone
    ]
    unfiled = [
        f"the cloud counts {part.completed} answers of the batch {part.batch_id}, and has no file with them"
        for part in parts
        if part.completed and not part.output_file_id
    ]
    return [Problem(code=FILE_LOST, message=message) for message in (*lost, *unfiled)], rounds


def _too_few(status: InferenceBatchStatus, merged: Merged) -> str:
    """Says how many results the files have if they lack some that the cloud counts; empty if they lack none."""
    told, found = counted(status), merged.succeeded + merged.failed
    if not merged.unanswered or found >= told.completed + told.failed:
        return ""
    return f"the cloud counts {told.completed + told.failed} results, and its files have {found}"


def _files(part: PartStatus, cloud: Cloud, gone: Collection[str]) -> PartFiles:
    def there(file_id: str | None) -> Open | None:
        return None if not file_id or file_id in gone else opened(cloud, file_id)

    return PartFiles(there(part.input_file_id), there(part.output_file_id), there(part.error_file_id))


def _published(
    output: OutputStatus, merge: Merge, lost: list[Problem], few: str, status: InferenceBatchStatus, now: datetime
) -> Published:
    merged = merge.merged
    missing = [Problem(code=FILE_LOST, message=few)] if few else []
    lines = merged.succeeded + merged.failed
    return Published(
        output=output.model_copy(update={"lines": lines}),
        counts=RequestCounts(total=merged.records, completed=merged.succeeded, failed=merged.failed),
        unanswered=merged.unanswered,
        lost=len(lost),
        at=now,
        problems=_first_shown([*lost, *missing, *shown(merged.problems)]),
        reasons=frequent(merged.reasons),
        ending=status.ending,
        usage=status.usage,
    )


def _first_shown(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Those within the limit; first those which show that the files with results must not be deleted."""
    return tuple(sorted(problems, key=lambda problem: not unread([problem]))[:SHOWN_PROBLEMS])


def unpublished(came: WorkRefused | WorkTroubled, obj: InferenceBatch) -> WorkRefused | WorkTroubled:
    """The report on paid answers that could not be published; they wait if another place helps."""
    if came.reason in MISPLACED:
        text = f"{clause(came.message)}; spec.output can be changed, and nothing is paid again; {_how_to_fetch(obj)}"
        return WorkTroubled(came.reason, text, stalled=True)
    return replace(came, message=f"{clause(came.message)}; {_how_to_fetch(obj)}")


def _how_to_fetch(obj: InferenceBatch) -> str:
    files = [file_id for part in obj.status.parts or () for file_id in results_of(part)]
    shown = ", ".join(files[:6]) + (", ... (status.parts)" if len(files) > 6 else "")
    return f"the cloud keeps the results: GET /v1/files/<id>/content of its inference API, with the id {shown}"
