"""A write before a create whose answer is lost shows that nothing was sent: no search has to find that out."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest

from relay_client import Cloud
from relay_kube.errors import NotLeading, Unavailable
from relay_operator.engine.cache import Cache
from relay_operator.engine.confirmation import ConfirmationDelays
from relay_operator.flows.batch.actions import Begin, Submit
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.names import TAG, PartTag
from relay_operator.flows.batch.plan import Phase, View
from relay_operator.flows.batch.result import Begun, NotPaid, Paid, Unknown
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, TOKEN, batch, part, status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.unit.engine.apiserver import Json


class _Writer:
    """Stores what is written, but loses the answers; `reads`: reading works."""

    def __init__(self, *, reads: bool) -> None:
        self._reads = reads
        self._written: dict[str, Any] = {}

    async def metadata(self, change: Mapping[str, Any]) -> None:
        self._written = {**batch().metadata.model_dump(mode="json", exclude_none=True), **change}
        raise Unavailable(0, "Lost", "no answer")

    async def status(self, patch: Mapping[str, Any]) -> None:
        if not self._reads:
            raise Unavailable(0, "Lost", "no answer")

    async def read(self) -> dict[str, Any]:
        if not self._reads:
            raise Unavailable(0, "Lost", "no answer")
        return {"metadata": self._written}


@pytest.mark.parametrize("reads", [True, False])
async def test_an_intent_whose_answer_is_lost_is_read_or_remembered_as_unsent(*, reads: bool) -> None:
    obj, memory, nothing = batch(), BatchMemory("uid-1"), cast("Any", None)
    facts = Facts(KEY, obj, NOON, ready(nothing), View(phase=Phase.NEW), obj.status)
    begin = acting(nothing, Cache()).act(facts, Begin(), memory, cast("Any", _Writer(reads=reads)))
    if reads:
        begun = await begin
        assert isinstance(begun, Begun)
        assert begun.intent.token == TOKEN
    else:
        with pytest.raises(Unavailable):
            await begin
    assert memory.unsent == TOKEN


@pytest.mark.parametrize("reads", [True, False])
async def test_a_part_is_unsent_until_its_marker_is_written(*, reads: bool) -> None:
    obj, cache, memory = batch(status=status(part(inputFileId="file_1"))), Cache(), BatchMemory("uid-1")
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    cache.put(KEY, cast("Json", {"kind": "InferenceBatch", "metadata": metadata, "status": {"createToken": TOKEN}}))
    made = {"id": "batch_1", "status": "validating", "metadata": {TAG: str(PartTag(TOKEN, 1, 1, 1, 1))}}
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(200, json.dumps(made).encode()))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            submit = acting(stores, cache).act(facts, Submit(), memory, cast("Any", _Writer(reads=reads)))
            if reads:
                assert isinstance(await submit, Paid)
            else:
                with pytest.raises(Unavailable):
                    await submit
    assert len(server.targets) == reads
    assert memory.unsent == ("" if reads else f"{TOKEN}/1/1")


async def test_who_leads_no_longer_after_the_marker_sends_no_create() -> None:
    obj, memory, nothing = batch(status=status(part(inputFileId="file_1"))), BatchMemory("uid-1"), cast("Any", None)
    actor = replace(acting(nothing, Cache()), leading=lambda: False)
    async with scripted_server() as server:
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            with pytest.raises(NotLeading):
                await actor.act(facts, Submit(), memory, cast("Any", _Writer(reads=True)))
        assert server.targets == []
    assert memory.unsent == f"{TOKEN}/1/1"


async def test_lists_before_a_create_say_nothing_of_it() -> None:
    """The cloud may act late on this one, too, though an earlier create of the part was never seen."""
    obj, cache, memory = batch(status=status(part(inputFileId="file_1"))), Cache(), BatchMemory("uid-1")
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    cache.put(KEY, cast("Json", {"kind": "InferenceBatch", "metadata": metadata, "status": {"createToken": TOKEN}}))
    what, delays = f"{TOKEN}/1/1", ConfirmationDelays()
    while memory.lacks(what, 10_000.0 * memory.not_seen, delays) is not None:
        memory.lacks(what, 5_000.0 + 10_000.0 * memory.not_seen, delays)
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(500, b"{}"))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            came = await acting(stores, cache).act(facts, Submit(), memory, cast("Any", _Writer(reads=True)))
    assert isinstance(came, Unknown)
    assert memory.lacks(what, 1e6, delays) == delays.unknown


async def test_a_create_that_is_withheld_is_unsent() -> None:
    """People changed the batch between its marker and its create."""
    obj, cache, memory = batch(status=status(part(inputFileId="file_1"))), Cache(), BatchMemory("uid-1")
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True) | {"generation": 2}
    cache.put(KEY, cast("Json", {"kind": "InferenceBatch", "metadata": metadata, "status": {"createToken": TOKEN}}))
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            result = await acting(stores, cache).act(facts, Submit(), memory, cast("Any", _Writer(reads=True)))
        assert isinstance(result, NotPaid)
        assert server.targets == []
    assert memory.unsent == f"{TOKEN}/1/1"


async def test_a_create_that_is_refused_is_unsent_whatever_becomes_of_the_write_that_says_so() -> None:
    obj, cache, memory = batch(status=status(part(inputFileId="file_1"))), Cache(), BatchMemory("uid-1")
    metadata = obj.metadata.model_dump(mode="json", exclude_none=True)
    cache.put(KEY, cast("Json", {"kind": "InferenceBatch", "metadata": metadata, "status": {"createToken": TOKEN}}))
    refusal = b'{"error":{"message":"slow down","type":"error","code":null}}'
    async with ObjectStores(StorePolicy()) as stores, scripted_server() as server:
        server.will(Reply(429, refusal))
        async with Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud:
            facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
            result = await acting(stores, cache).act(facts, Submit(), memory, cast("Any", _Writer(reads=True)))
        assert isinstance(result, NotPaid)
    assert memory.unsent == f"{TOKEN}/1/1"
