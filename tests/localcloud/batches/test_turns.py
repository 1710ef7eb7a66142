"""A step of a batch takes the event loop as a request does, and waits for a turn beside its organization's requests."""

from __future__ import annotations

import asyncio
import io
from functools import partial

import pytest

from relay_localcloud.app import Options, open_cloud
from relay_localcloud.batches import rows
from relay_localcloud.batches.rows import BATCHES
from relay_localcloud.batches.states import Trigger
from relay_localcloud.cloud import Cloud
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_wire.batches import BatchStatus
from relay_wire.inference import Family
from tests.support.eventually import PATIENCE_SECONDS, eventually

WAITING = 4


class Endless(io.BytesIO):
    """An input that takes for ever to validate."""

    def readline(self, size: int | None = -1, /) -> bytes:
        del size
        return b"\n"


async def status_of(cloud: Cloud, batch_id: str) -> BatchStatus:
    with cloud.store.transaction() as tx:
        batch = BATCHES.find(tx, id=batch_id)
    assert batch is not None
    return batch.status


async def test_a_step_begins_after_what_waited_before_it_for_the_turn_of_its_organizations_batches() -> None:
    cloud = open_cloud(Store.ephemeral(), Options(first_mode="frozen"), "http://gateway", "http://inference")
    with cloud.store.transaction() as tx:
        organization_id = organizations.found(tx, "o", 100, ()).organization_id
        made = rows.make(tx, organization_id, Family.CHAT_COMPLETIONS, "file_1", None)
        rows.move(tx, made, Trigger.FOUND_VALID)
        rows.move(tx, rows.find(tx, organization_id, made.id), Trigger.ALL_RECORDS_DONE)
        rows.schedule(tx, made.id, tx.now)

    async def another() -> BatchStatus:
        await cloud.turns.of(f"batches of {organization_id}")
        return await status_of(cloud, made.id)

    others = [asyncio.create_task(another()) for _ in range(WAITING)]
    await asyncio.sleep(0)
    cloud.batches.begin(cloud.clock.now(), at_due_time=False, horizon=cloud.clock.now())
    assert await asyncio.gather(*others) == [BatchStatus.FINALIZING] * WAITING
    await eventually(partial(status_of, cloud, made.id), lambda found: found is BatchStatus.COMPLETED)


async def test_a_cancelled_batch_does_not_wait_until_its_input_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    cloud = open_cloud(Store.ephemeral(), Options(first_mode="frozen"), "http://gateway", "http://inference")
    begun = asyncio.Event()

    def read(_: str) -> Endless:
        begun.set()
        return Endless()

    monkeypatch.setattr(cloud.files, "read", read)
    with cloud.store.transaction() as tx:
        organization_id = organizations.found(tx, "o", 100, ()).organization_id
        made = rows.make(tx, organization_id, Family.CHAT_COMPLETIONS, "file_1", None)
        rows.schedule(tx, made.id, tx.now)
    cloud.batches.begin(cloud.clock.now(), at_due_time=False, horizon=cloud.clock.now())
    (validation,) = cloud.batches.tasks
    await begun.wait()
    with cloud.store.transaction() as tx:
        rows.move(tx, made, Trigger.CANCEL, records_wanted=0)
        rows.schedule(tx, made.id, tx.now)
    await asyncio.wait_for(validation, PATIENCE_SECONDS)
    cloud.batches.begin(cloud.clock.now(), at_due_time=False, horizon=cloud.clock.now())
    await eventually(partial(status_of, cloud, made.id), lambda found: found is BatchStatus.CANCELLED)
