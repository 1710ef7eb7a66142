"""Nothing is uploaded for a batch that people have changed since that was decided."""

import asyncio
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from relay_client import Cloud
from relay_kube.kube import Kube
from relay_operator.api.conditions import Reason
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.account import AccountReady, Accounts
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import Installation
from relay_operator.engine.queue import Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.actions import Start, Work
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.facts import BatchMemory, Facts
from relay_operator.flows.batch.files import LostFiles
from relay_operator.flows.batch.gather import job_of
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.plan import Phase, Transfer, View
from relay_operator.flows.batch.publishing import Publishing
from relay_operator.flows.batch.result import Uploaded, WorkResult, WorkTroubled
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.sources import Sources
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.pace import Pace
from tests.support.eventually import eventually
from tests.unit.client.scripted import Reply, scripted_server
from tests.unit.engine.apiserver import Json
from tests.unit.flows.batch.examples import NOON, TOKEN, batch

ACCOUNT = ObjectKey("CloudAccount", "ns", "default")
KEY = ObjectKey("InferenceBatch", "ns", "nightly")
FILE = Reply(200, b'{"id":"file_1","object":"file","bytes":10,"created_at":1,"filename":"x","purpose":"batch"}')


class _Nobody:
    """Is told of refusals."""

    def failed(self, account: AccountReady, error: Exception, whose: ObjectKey | None = None) -> None:
        raise AssertionError(f"the cloud said nothing: {error}")


async def _sent(folder: Path, *, generation: int) -> tuple[WorkResult, list[str]]:
    """What the work comes to, and what the cloud is asked, where the object is at this generation by now."""
    nothing = cast("Kube", None)  # neither input nor output needs an API server
    lines = [{"customId": "a", "body": {"messages": [{"role": "user", "content": "hello"}]}}]
    obj = batch(output={"url": f"file://{folder}"}, input={"inline": lines})
    cache, metadata = (
        Cache(),
        cast("Json", {**obj.metadata.model_dump(mode="json", exclude_none=True), "generation": generation}),
    )
    cache.put(KEY, {"kind": "InferenceBatch", "metadata": metadata})
    async with ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores, scripted_server() as server:
        server.will(FILE)
        cloud = Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1")
        sources = Sources(nothing, stores)
        destinations = Destinations(nothing, stores, sources, lambda: True)
        lost_files, pace = LostFiles(1.0, asyncio.sleep), Pace()
        transfers = Transfers(Queue[ObjectKey](lambda: 0.0), Places(1))
        actor = Actor(
            accounts=cast("Accounts", _Nobody()),
            transfers=transfers,
            sending=Sending(sources, destinations, lost_files, pace, 2**20),
            publishing=Publishing(destinations, lost_files, pace, lambda: NOON),
            destinations=destinations,
            clock=lambda: 0.0,
            new_token=lambda: TOKEN,
            installation=Installation(),
            leading=lambda: True,
            cache=cache,
        )
        account = AccountReady(ACCOUNT, cloud, "org-1", UnclaimedIds(), False, True)
        intent = CreateIntent(token=TOKEN, name="nightly", attempt=1, spec_hash="", started_at=NOON)
        facts = Facts(KEY, obj, NOON, account, View(phase=Phase.ACTIVE), obj.status, intent)
        job = job_of(facts)
        assert job is not None
        await actor.act(facts, Start(Work.SEND), BatchMemory("uid-1", clean=True), cast("Any", None))

        async def state() -> Transfer:
            return transfers.state(KEY, job)

        await eventually(state, lambda told: told is Transfer.DONE, every=0.01)
        await cloud.aclose()
        return transfers.result(KEY), server.targets


@pytest.mark.parametrize("generation", [0, 1], ids=["as it was", "changed"])
async def test_an_upload_is_sent_only_while_its_decision_stands(tmp_path: Path, generation: int) -> None:
    came, asked = await _sent(tmp_path, generation=generation)
    if generation == 0:
        assert (type(came), asked) == (Uploaded, ["POST /v1/files"])
    else:
        assert isinstance(came, WorkTroubled)
        assert (came.reason, asked) == (Reason.WAITING_FOR_RETRY, [])
