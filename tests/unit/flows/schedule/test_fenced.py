"""A batch is deleted or created only by who leads, and only for the schedule that this was decided for."""

from collections.abc import AsyncIterator, Callable

import pytest
import pytest_asyncio

from tests.unit.engine.apiserver import Call, Json
from tests.unit.flows.schedule.stage import KEY, NAMESPACE, Stage, running_stage

TRY, DELETE = "POST inferencebatches", "DELETE inferencebatches"


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A minute before the running batch is replaced by the next."""
    async with running_stage() as found:
        found.apply(concurrencyPolicy="Replace")
        await found.wait(60)
        found.server.calls.clear()
        yield found


def _leaves(stage: Stage) -> None:
    stage.leads = False


def _changes(stage: Stage) -> None:
    stage.change(successfulBatchesHistoryLimit=5)


def _another(stage: Stage) -> None:
    stage.server.remove("inferencebatchschedules", NAMESPACE, KEY.name)
    stage.apply(suspend=True)


def _pauses(stage: Stage) -> None:
    metadata: Json = {"metadata": {"annotations": {"gpurelay.dev/paused": "true"}}}
    stage.server.edit("inferencebatchschedules", NAMESPACE, KEY.name, metadata)


def _on(writes: int, stage: Stage, happens: Callable[[Stage], None]) -> None:
    """It happens while this write of a batch, counted from 1, is answered."""
    seen = [0]

    def before(call: Call) -> None:
        if call.method in {"POST", "DELETE"}:
            seen[0] += 1
            if seen[0] == writes:
                happens(stage)

    stage.server.before = before


@pytest.mark.parametrize("happens", [_leaves, _changes, _another, _pauses])
@pytest.mark.parametrize("writes", [1, 2], ids=["before the deletion", "before the creation"])
async def test_nothing_is_written_once_another_decides(
    stage: Stage, happens: Callable[[Stage], None], writes: int
) -> None:
    _on(writes, stage, happens)
    stage.clock.seconds += 60
    taken = await stage.queue.take()
    await stage.reconciler.reconcile(taken)
    assert [write for write in stage.server.writes if "batches" in write] == [TRY, DELETE][:writes]


async def test_who_leads_no_longer_writes_nothing_at_all(stage: Stage) -> None:
    stage.leads = False
    stage.clock.seconds += 60
    await stage.reconciler.reconcile(await stage.queue.take())
    assert not [write for write in stage.server.writes if "batches" in write]


async def test_a_schedule_that_changed_meanwhile_is_decided_on_again(stage: Stage) -> None:
    before = stage.batches
    _on(1, stage, _changes)
    await stage.wait(60)
    await stage.wait(5)
    assert len(stage.batches) == 1
    assert stage.batches != before
