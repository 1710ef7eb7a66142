"""A step of a batch takes the event loop as a request does, and waits for a turn beside its organization's requests."""

from __future__ import annotations

import asyncio

from relay_localcloud.app import Options, open_cloud
from relay_localcloud.batches import rows
from relay_localcloud.batches.rows import BATCHES
from relay_localcloud.batches.states import Trigger
from relay_localcloud.identity import organizations
from relay_localcloud.kernel.store import Store
from relay_wire.batches import BatchStatus
from relay_wire.inference import Family
from tests.support.eventually import eventually

WAITING = 4


async def test_a_step_begins_after_what_waited_before_it_for_the_turn_of_its_organizations_batches() -> None:
    cloud = open_cloud(Store.ephemeral(), Options(first_mode="frozen"), "http://gateway", "http://inference")
    with cloud.store.transaction() as tx:
        organization_id = organizations.found(tx, "o", 100, ()).organization_id
        made = rows.make(tx, organization_id, Family.CHAT_COMPLETIONS, "file_1", None)
        rows.move(tx, made, Trigger.FOUND_VALID)
        rows.move(tx, rows.find(tx, organization_id, made.id), Trigger.ALL_RECORDS_DONE)
        rows.schedule(tx, made.id, tx.now)

    async def status() -> BatchStatus:
        with cloud.store.transaction() as tx:
            batch = BATCHES.find(tx, id=made.id)
        assert batch is not None
        return batch.status

    async def another() -> BatchStatus:
        await cloud.turns.of(f"batches of {organization_id}")
        return await status()

    others = [asyncio.create_task(another()) for _ in range(WAITING)]
    await asyncio.sleep(0)
    cloud.batches.begin(cloud.clock.now(), at_due_time=False, horizon=cloud.clock.now())
    assert await asyncio.gather(*others) == [BatchStatus.FINALIZING] * WAITING
    await eventually(status, lambda found: found is BatchStatus.COMPLETED)
