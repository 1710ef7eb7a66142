"""How running batches are read: all with one list, unless something changed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.engine.flow import Turn
from relay_operator.engine.identity import Installation
from relay_operator.engine.queue import Priority, Queue
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.batch.facts import BatchMemory
from relay_operator.flows.batch.gather import Gatherer
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.polls import BatchPolls
from relay_operator.flows.batch.transfers import Transfers
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import KEY, ready
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, sent, status

if TYPE_CHECKING:
    from relay_operator.engine.account import AccountReady

PARTS = range(1, 5)
ROWS = [
    {"id": f"batch_1_{part}", "status": "in_progress", "metadata": {TAG: str(PartTag(TOKEN, 1, part, 4, 1))}}
    for part in PARTS
]
LIST = Reply(200, json.dumps({"object": "list", "data": ROWS, "has_more": False}).encode())


class _Accounts:
    """Has one account, which works."""

    def __init__(self, account: AccountReady) -> None:
        self._account = account

    async def resolve(self, namespace: str, ref: object, *, ending: bool = False) -> AccountReady:
        return self._account


@pytest.mark.parametrize(
    ("priority", "asked"),
    [
        (Priority.RETRY, ["GET /v1/batches?limit=100"]),
        (Priority.POLL, ["GET /v1/batches?limit=100"]),
        (Priority.CHANGE, [f"GET /v1/batches/batch_1_{part}" for part in PARTS]),
        (Priority.DELETE, [f"GET /v1/batches/batch_1_{part}" for part in PARTS]),
    ],
)
async def test_running_parts_are_read_with_one_list_unless_something_changed(
    priority: Priority, asked: list[str]
) -> None:
    obj = batch(status=status(*(sent(part) for part in PARTS)))
    async with (
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(LIST, *(Reply(200, json.dumps(row).encode()) for row in ROWS))
        if priority < Priority.RETRY:
            server.script.popleft()
        gatherer = Gatherer(
            accounts=cast("Any", _Accounts(ready(cloud))),
            cache=Cache(),
            polls=BatchPolls(SharedLists(2.5, lambda: 0.0), 600.0, lambda: 0.0),
            transfers=Transfers(Queue[ObjectKey](lambda: 0.0), Places(1)),
            clock=lambda: 0.0,
            delays=ConfirmationDelays(),
            installation=Installation(),
        )
        facts = await gatherer.gather(Turn(KEY, "uid-1", NOON, priority), obj, BatchMemory("uid-1"))
    assert facts.error is None
    assert server.targets == asked
