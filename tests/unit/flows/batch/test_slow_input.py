"""An input that stalls is told as such, and not as trouble of the cloud."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from relay_client import CallPolicy, Cloud
from relay_operator.api.conditions import Reason
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.actions import Start, Work
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.gather import job_of
from relay_operator.flows.batch.plan import Phase, Transfer, View
from relay_operator.flows.batch.result import WorkTroubled
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.support.eventually import eventually
from tests.unit.client.scripted import Hang, Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, as_seen, batch
from tests.unit.records.streams import file, record


@pytest.mark.virtual_time
async def test_an_input_that_stalls_is_unavailable_and_the_cloud_is_not(tmp_path: Path) -> None:
    policy = StorePolicy((PurePosixPath(tmp_path),), (ip_network("127.0.0.0/8"),))
    async with ObjectStores(policy) as stores, scripted_server() as web, scripted_server() as server:
        web.will(Reply(200, file([record("a")]), announced=1000, linger=True))
        server.will(Hang())
        obj, cache = batch(output={"url": f"file://{tmp_path}"}, input={"url": f"{web.url}/in.jsonl"}), Cache()
        cache.put(KEY, as_seen(obj))
        quick = CallPolicy(idle_seconds=0.3, total_seconds=0.3)
        async with Cloud(
            server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1", policy=quick
        ) as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            job, actor = job_of(facts), acting(stores, cache)
            assert job is not None
            await actor.act(facts, Start(Work.SEND), BatchMemory("uid-1", clean=True), cast("Any", None))

            async def state() -> Transfer:
                return actor.transfers.state(KEY, job)

            await eventually(state, lambda told: told is Transfer.DONE, every=0.01)
        came = actor.transfers.result(KEY)
    assert isinstance(came, WorkTroubled)
    assert (came.reason, came.stalled) == (Reason.INPUT_UNAVAILABLE, False)
    assert "nothing to send came for 0.3 s" in came.message
