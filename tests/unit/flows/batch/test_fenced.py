"""Nothing is uploaded for a batch that people have changed since that was decided."""

import asyncio
import gc
import weakref
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from relay_client import Cloud
from relay_operator.api.conditions import Reason
from relay_operator.api.inferencebatch import InferenceBatch
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import identity_of
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.actions import Start, Work
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.gather import job_of
from relay_operator.flows.batch.places import Share
from relay_operator.flows.batch.plan import Phase, Transfer, View
from relay_operator.flows.batch.result import Uploaded, WorkResult, WorkTroubled
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from tests.support.eventually import eventually
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.engine.apiserver import part
from tests.unit.flows.batch.acting import INTENT, KEY, acting, ready
from tests.unit.flows.batch.examples import NOON, as_seen, batch, status

SENT_FOR = INTENT.model_copy(update={"identity": identity_of(batch().metadata, "", "org-1", "inference")})
FILE = Reply(200, b'{"id":"file_1","object":"file"}')


async def _sent(folder: Path, *, generation: int) -> tuple[WorkResult, list[str]]:
    """What the work comes to, and what the cloud is asked, where the object is at this generation by now."""
    lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
    obj = batch(output={"url": f"file://{folder}"}, input={"inline": lines})
    cache, raw = Cache(), as_seen(obj)
    part(raw, "metadata")["generation"] = generation
    cache.put(KEY, raw)
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores, scripted_server() as server:
        server.will(FILE)
        cloud = Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1")
        actor = acting(stores, cache)
        facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, SENT_FOR)
        job = job_of(facts)
        assert job is not None
        await actor.act(facts, Start(Work.SEND), BatchMemory("uid-1", clean=True), cast("Any", None))

        async def state() -> Transfer:
            return actor.transfers.state(KEY, job)

        await eventually(state, lambda told: told is Transfer.DONE, every=0.01)
        await cloud.aclose()
        return actor.transfers.result(KEY), server.targets


@pytest.mark.parametrize(
    ("generation", "read"), [(0, False), (1, False), (1, True)], ids=["as it was", "changed", "changed since its read"]
)
async def test_an_upload_is_sent_only_while_its_decision_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, generation: int, *, read: bool
) -> None:
    if read:
        lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
        former = batch(output={"url": f"file://{tmp_path}"}, input={"inline": lines})
        monkeypatch.setattr(Actor, "_read", lambda *_: former)
    came, asked = await _sent(tmp_path, generation=generation)
    if generation == 0:
        assert isinstance(came, Uploaded)
        assert (came.made_for, asked) == (SENT_FOR.identity, ["POST /v1/files"])
    else:
        assert isinstance(came, WorkTroubled)
        assert (came.reason, asked) == (Reason.WAITING_FOR_RETRY, [])
        assert ("it is not what was decided on" in came.message) is not read


@pytest.mark.parametrize(
    "now", [batch(output={"configMapRef": {"name": "other"}}), batch(status=status(round=2))], ids=["output", "round"]
)
async def test_an_upload_does_not_go_on_for_another_output_or_round(now: InferenceBatch) -> None:
    async def forever() -> WorkResult:
        await asyncio.Event().wait()
        raise AssertionError

    nothing, memory = cast("Any", None), BatchMemory("uid-1", clean=True)
    before = batch()
    facts = Facts(KEY, before, NOON, ready(nothing), View(phase=Phase.ACTIVE), before.status, INTENT)
    actor, former = acting(nothing, Cache()), job_of(facts)
    assert former is not None
    actor.transfers.start(KEY, former, "ns/default", forever)
    facts = replace(facts, obj=now)
    wanted = job_of(facts)
    assert wanted is not None
    assert actor.transfers.state(KEY, wanted) is Transfer.IDLE
    cloud = Cloud("https://cloud.invalid", "or_key_0123456789")
    await actor.act(replace(facts, account=ready(cloud)), Start(Work.SEND), memory, nothing)
    assert actor.transfers.state(KEY, wanted) is not Transfer.IDLE
    assert not memory.clean, "nothing records what was uploaded before"
    await actor.transfers.close()
    await cloud.aclose()


async def test_a_job_that_waits_for_its_place_holds_no_records() -> None:
    """Thousands may wait, each with half a mebibyte of them."""
    nothing, obj = cast("Any", None), batch()
    actor, cloud = acting(nothing, Cache()), Cloud("https://cloud.invalid", "or_key_0123456789")
    async with actor.transfers.places.one(Share("another", "another")):
        facts = Facts(KEY, obj, NOON, ready(cloud), View(phase=Phase.ACTIVE), obj.status, INTENT)
        job, spec = job_of(facts), weakref.ref(obj.spec)
        assert job is not None
        await actor.act(facts, Start(Work.SEND), BatchMemory("uid-1"), nothing)
        del facts, obj
        gc.collect()
        assert actor.transfers.state(KEY, job) is Transfer.BUSY
        assert spec() is None
    await actor.transfers.close()
    await cloud.aclose()


async def test_a_job_that_waits_does_what_was_decided_last(tmp_path: Path) -> None:
    """While it waits, people may delete the batch, or change what may change."""
    lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
    obj, cache = batch(output={"url": f"file://{tmp_path}"}, input={"inline": lines}), Cache()
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(tmp_path),))) as stores, scripted_server() as server:
        server.will(FILE)
        cloud = Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1")
        actor, memory = acting(stores, cache), BatchMemory("uid-1", clean=True)
        async with actor.transfers.places.one(Share("another", "another")):
            for generation in (0, 1):
                told = obj.model_copy(update={"metadata": obj.metadata.model_copy(update={"generation": generation})})
                raw = as_seen(told)
                part(raw, "metadata")["resourceVersion"] = str(generation + 1)
                cache.put(KEY, raw)
                facts = Facts(KEY, told, NOON, ready(cloud), View(phase=Phase.ACTIVE), told.status, SENT_FOR)
                await actor.act(facts, Start(Work.SEND), memory, cast("Any", None))
        job = job_of(facts)
        assert job is not None

        async def state() -> Transfer:
            return actor.transfers.state(KEY, job)

        await eventually(state, lambda told: told is Transfer.DONE, every=0.01)
        await cloud.aclose()
        assert isinstance(actor.transfers.result(KEY), Uploaded)
