"""An output whose server hardly answers does not hold the worker that checks it."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any, cast

from relay_operator.api.conditions import Reason
from relay_operator.engine.cache import Cache
from relay_operator.flows.batch.actions import BeginPublication
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.plan import Phase, View
from relay_operator.flows.batch.result import Hindered, WorkTroubled
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.client.scripted import Hang, scripted_server
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, batch, sent, status


async def test_a_check_of_the_output_has_a_bound() -> None:
    policy = StorePolicy(private_networks=(ip_network("127.0.0.0/8"),))
    async with ObjectStores(policy) as stores, scripted_server() as server:
        server.will(Hang())
        obj = batch(output={"url": f"{server.url}/out"}, status=status(sent(state="completed", outputFileId="file_9")))
        nothing = cast("Any", None)
        facts = Facts(KEY, obj, NOON, ready(nothing), View(phase=Phase.ACTIVE), obj.status, INTENT)
        actor = acting(stores, Cache())
        actor.check_seconds = 0.05
        came = await actor.act(facts, BeginPublication(), BatchMemory("uid-1"), nothing)
    assert isinstance(came, Hindered)
    assert isinstance(came.came, WorkTroubled)
    assert (came.came.reason, came.came.stalled) == (Reason.OUTPUT_UNAVAILABLE, False)
    assert "within 0.05 s; the cloud keeps the results" in came.came.message
