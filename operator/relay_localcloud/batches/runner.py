"""The work on batches: one due item each, a step at a time, beside the clock (`clock/outbound.py`).

A step is a slice of records, or one record that takes real time. Its lines are written to the files first, then one
transaction stores the progress, the counts, the charge and the next step. A process killed between the two repeats the
step at the same positions of the files: no record is charged twice, no line is lost or doubled.
"""

import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Final, Self

from relay_localcloud.batches import records, rows, validation
from relay_localcloud.batches.records import Outcome, Progress, RecordFailure
from relay_localcloud.batches.rows import BATCHES, PHASE, STEP, Batch, Step, schedule, schedule_record
from relay_localcloud.batches.states import Trigger
from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.batches.work import Worker
from relay_localcloud.clock.outbound import Outbound
from relay_localcloud.http.turns import Turns
from relay_localcloud.identity.organizations import standing_of
from relay_localcloud.inference.charges import charge
from relay_localcloud.inference.funds import Funds, Hold
from relay_localcloud.kernel import due
from relay_localcloud.kernel.due import QueuedCall
from relay_localcloud.kernel.instants import SECOND, seconds
from relay_localcloud.kernel.store import Store, Tx
from relay_localcloud.quotas import quotas
from relay_localcloud.quotas.quotas import QUOTA_EXCEEDED
from relay_wire.batches import BatchStatus
from relay_wire.files import OUTPUT

_log = logging.getLogger(__name__)

PATIENCE: Final = 60 * SECOND
"""The wait before a step is tried again whose files could not be read or written, or whose record has to wait."""

AT_ONCE: Final = 256
NO_ROOM: Final = Outcome.failed(
    RecordFailure(QUOTA_EXCEEDED, "The quota fileBytes of this organization was used up before this record was done.")
)
SLICE_SECONDS: Final = 0.005
"""CPU time after which a slice ends, so that requests get a turn."""


class BatchRunner(Outbound):
    """Runs steps when the clock finds them due. A step changes the balance, which any later transition reads."""

    def __init__(self, store: Store, storage: FileStorage, worker: Worker, funds: Funds, turns: Turns) -> None:
        super().__init__(store, STEP, AT_ONCE, per_lane=1)
        self._storage = storage
        self._worker = worker
        self._funds = funds
        self._turns = turns  # a step blocks the event loop as a request does, and waits for its turn among them

    async def __aenter__(self) -> Self:
        """Do nothing: the clock begins the steps."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Abandon what is under way; it stays due."""
        await self.abandon()

    def _owner(self, tx: Tx, lane: str) -> str | None:
        batch = BATCHES.find(tx, id=lane)
        return None if batch is None else batch.organization_id

    async def _attempt(self, queued: QueuedCall, at: int, horizon: int) -> None:
        del at  # a step happens at its due time, even after a pause of the process
        await self._turn(self._owner_of(queued.lane))
        with self._store.transaction(at=0) as tx:
            step = rows.step(tx, queued.item_id)
        if step is None:
            return
        with self._postponed_by_the_disk(step):
            if self._took(step, horizon):
                return
        with self._postponed_by_the_disk(step):
            if step.batch.status is BatchStatus.VALIDATING:
                await self._validate(step)
            else:
                await self._do_one(step)

    async def _turn(self, organization_id: str) -> None:
        """Wait for the turn of an organization's batches, which have a lane of their own beside its requests."""
        await self._turns.of(f"batches of {organization_id}")

    def _took(self, step: Step, horizon: int) -> bool:
        """Do the step at once; False if it takes real time."""
        batch = step.batch
        match batch.status:
            case BatchStatus.VALIDATING:
                return False
            case BatchStatus.IN_PROGRESS if step.time_is_up:
                self._end_records(step)
            case BatchStatus.IN_PROGRESS | BatchStatus.CANCELLING if batch.records_done < batch.records_wanted:
                return self._do_slice(step, horizon)
            case BatchStatus.FINALIZING if batch.records_done < batch.records_wanted:
                self._expire_slice(step)
            case _:
                self._finish(step)
        return True

    @contextmanager
    def _postponed_by_the_disk(self, step: Step) -> Iterator[None]:
        """If the files cannot be read or written, nothing of the step is kept: schedule it again."""
        try:
            yield
        except OSError as error:
            batch, again = step.batch, step.due_at + PATIENCE
            _log.warning("The batch %s waits for its files: %s", batch.id, error)
            is_over = batch.status is BatchStatus.IN_PROGRESS and again > batch.expires_at
            with self._store.transaction(at=0) as tx:
                if due.remove(tx.connection, step.item_id):
                    schedule(tx, batch.id, again, time_is_up=step.time_is_up or is_over)

    async def _validate(self, step: Step) -> None:
        batch = step.batch
        content = self._storage.read(batch.input_file_id)
        serves = partial(self._worker.serves, batch.organization_id, batch.endpoint)
        slices = validation.examine(content, batch.endpoint, serves)
        found = validation.Findings()
        while not found.finished:
            await self._turn(batch.organization_id)
            with self._store.transaction(at=0) as tx:
                if rows.step(tx, step.item_id) is None:  # the batch was cancelled, and need not wait for the rest
                    return
            found = next(slices)
        with self._store.transaction(at=self._finished_at(step)) as tx:
            if not due.remove(tx.connection, step.item_id):
                return
            if found.problems:
                rows.move(tx, batch, Trigger.FOUND_INVALID, problems=rows.problems_as_json(found.problems))
                return
            counts = {"total": found.records, "records_wanted": found.records, "model": found.model}
            rows.move(tx, batch, Trigger.FOUND_VALID, **counts)
            schedule_record(tx, batch, tx.now)

    def _do_slice(self, step: Step, horizon: int) -> bool:
        """Do records that can be paid and end by `horizon`; False if the next one takes real time."""
        batch, at = step.batch, step.due_at
        enough = time.thread_time() + SLICE_SECONDS
        record_time = seconds(self._store.settings.batch_record_seconds)
        last = min(max(horizon, at), batch.expires_at)
        progress = Progress(end=batch.input_offset)
        with self._store.transaction(at=at) as tx:
            if standing_of(tx, batch.organization_id) is not None:
                self._wait(tx, step)
                return True
            left = self._funds.left(tx, batch.organization_id)
            room = quotas.left(tx, batch.organization_id, quotas.FILE_BYTES)
            for line, end in self._lines(batch):
                done_at = step.due_at + progress.done * record_time
                if progress.done and (done_at > last or time.thread_time() > enough):
                    break
                record = records.valid(line, batch.endpoint)
                is_full = len(progress.output) + len(progress.errors) >= room
                outcome = NO_ROOM if is_full else self._worker.now(tx, batch.organization_id, batch.endpoint, record)
                if outcome is None:
                    break
                cost = outcome.usage.cost_nano_usd
                if cost and progress.usage.cost_nano_usd + cost > left:
                    if not progress.done:
                        self._wait(tx, step)
                        return True
                    break
                progress.add(new_identifier(), record.custom_id, outcome, end)
                at = done_at
            if progress.done:
                self._keep(tx, step, progress, at)
        return progress.done > 0

    async def _do_one(self, step: Step) -> None:
        batch = step.batch
        line, end = next(self._lines(batch))
        record = records.valid(line, batch.endpoint)
        with Hold(self._funds, self._store, batch.organization_id) as hold:
            outcome = await self._worker.later(batch.organization_id, batch.endpoint, record, hold)
            progress = Progress()
            progress.add(new_identifier(), record.custom_id, outcome, end)
            with self._store.transaction(at=self._finished_at(step)) as tx:
                if outcome.lacks_funds:
                    self._wait(tx, step)
                else:
                    self._keep(tx, step, progress, tx.now)

    def _wait(self, tx: Tx, step: Step) -> None:
        """Try the record again later, within the batch's window; a batch that is being cancelled ends without it.

        Its organization lacks funds, or is suspended or under review.
        """
        batch = step.batch
        if not due.remove(tx.connection, step.item_id):
            return
        if batch.status is BatchStatus.CANCELLING:
            BATCHES.change(tx, batch.id, records_wanted=batch.records_done)
            schedule(tx, batch.id, step.due_at)
        else:
            schedule_record(tx, batch, step.due_at + PATIENCE)

    def _expire_slice(self, step: Step) -> None:
        """Write the lines of records that were not done in time."""
        batch, progress = step.batch, Progress(end=step.batch.input_offset)
        enough = time.thread_time() + SLICE_SECONDS
        for line, end in self._lines(batch):
            progress.expire(new_identifier(), records.valid(line, batch.endpoint).custom_id, end)
            if time.thread_time() > enough:
                break
        with self._store.transaction(at=step.due_at) as tx:
            self._keep(tx, step, progress, step.due_at)

    def _lines(self, batch: Batch) -> Iterator[tuple[bytes, int]]:
        """The lines of the wanted records that are not done, each with the position of its end."""
        with self._storage.read(batch.input_file_id, batch.input_offset) as content:
            wanted = batch.records_wanted - batch.records_done
            for _, line in islice(validation.lines(content), wanted):
                yield line, content.tell()

    def _keep(self, tx: Tx, step: Step, progress: Progress, at: int) -> None:
        """Store what was done by `at`, charge it, and schedule the next step."""
        batch = BATCHES.find(tx, id=step.batch.id)
        if batch is None or batch.records_done != step.batch.records_done:
            return
        self._storage.append(batch.output_file_id, batch.output_bytes, progress.output)
        self._storage.append(batch.error_file_id, batch.error_bytes, progress.errors)
        rows.add(tx, batch, progress)
        charge(tx, batch.organization_id, progress.usage)
        if not due.remove(tx.connection, step.item_id):
            return  # the batch was cancelled meanwhile, which has scheduled the next step
        if batch.status is not BatchStatus.IN_PROGRESS:
            schedule(tx, batch.id, step.due_at)
        elif batch.records_done + progress.done < batch.records_wanted:
            schedule_record(tx, batch, at)
        else:
            rows.move(tx, batch, Trigger.ALL_RECORDS_DONE)
            schedule(tx, batch.id, at + PHASE)

    def _end_records(self, step: Step) -> None:
        with self._store.transaction(at=step.due_at) as tx:
            if due.remove(tx.connection, step.item_id):
                rows.move(tx, step.batch, Trigger.TIME_IS_UP)
                schedule(tx, step.batch.id, tx.now + PHASE)

    def _finish(self, step: Step) -> None:
        """Publish the files that have lines, and end the batch."""
        batch = step.batch
        contents = {
            "output": (batch.output_file_id, batch.output_bytes),
            "errors": (batch.error_file_id, batch.error_bytes),
        }
        with self._store.transaction(at=step.due_at) as tx:
            if not due.remove(tx.connection, step.item_id):
                return
            for name, (file_id, size) in contents.items():
                if size:
                    self._storage.cut(file_id, size)
                    rows.keep_file(tx, batch.organization_id, file_id, f"{batch.id}_{name}.jsonl", OUTPUT, size)
                else:
                    tx.after_commit(partial(self._storage.discard, file_id))
            rows.end(tx, batch)

    def _finished_at(self, step: Step) -> int:
        """When a step that takes real time ends."""
        return max(step.due_at, self._store.current_time())


def new_identifier() -> str:
    """The unique part of the ids in a result line."""
    return secrets.token_hex(12)
