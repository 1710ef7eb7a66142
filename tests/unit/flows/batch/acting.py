"""The real actor of batches, for tests that need neither an API server nor an account's connection."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

from relay_client import Cloud
from relay_operator.api.meta import CreateIntent, ObjectKey
from relay_operator.engine.account import AccountReady, Accounts
from relay_operator.engine.cache import Cache
from relay_operator.engine.identity import Installation
from relay_operator.engine.queue import Queue
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.batch.act import Actor
from relay_operator.flows.batch.destinations import Destinations
from relay_operator.flows.batch.files import LostFiles
from relay_operator.flows.batch.places import Places
from relay_operator.flows.batch.publishing import Publishing
from relay_operator.flows.batch.sending import Sending
from relay_operator.flows.batch.sources import Sources
from relay_operator.flows.batch.transfers import Transfers
from relay_operator.objectstores.addresses import StorePolicy
from relay_operator.objectstores.stores import ObjectStores
from relay_operator.records.pace import Pace
from tests.unit.client.scripted import Reply, ScriptedServer, Step, scripted_server
from tests.unit.flows.batch.examples import NOON, TOKEN

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from relay_kube.kube import Kube

KEY = ObjectKey("InferenceBatch", "ns", "nightly")
INTENT = CreateIntent(token=TOKEN, name="nightly", attempt=1, spec_hash="", started_at=NOON)
LIST = Reply(200, b'{"object":"list","data":[],"has_more":false}')
NOT_FOUND = Reply(404, b'{"error":{"message":"no","type":"not_found_error","code":null}}')


class _Nobody:
    """Learns of failures, and does nothing."""

    def failed(self, account: AccountReady, error: Exception, whose: ObjectKey | None = None) -> None:
        pass


def ready(cloud: Cloud) -> AccountReady:
    """The account of this connection."""
    return AccountReady(ObjectKey("CloudAccount", "ns", "default"), cloud, "org-1", UnclaimedIds(), False, True)


def acting(stores: ObjectStores, cache: Cache) -> Actor:
    """An actor that leads, and may run one job at a time."""
    kube = cast("Kube", None)
    sources = Sources(kube, stores)
    destinations = Destinations(kube, stores, sources, lambda: True)
    lost_files, pace = LostFiles(0.0, asyncio.sleep), Pace()
    return Actor(
        accounts=cast("Accounts", _Nobody()),
        transfers=Transfers(Queue[ObjectKey](lambda: 0.0), Places(1)),
        sending=Sending(sources, destinations, lost_files, pace, 2**20),
        publishing=Publishing(destinations, lost_files, pace, lambda: NOON),
        destinations=destinations,
        clock=lambda: 0.0,
        new_token=lambda: TOKEN,
        installation=Installation(),
        leading=lambda: True,
        cache=cache,
    )


@asynccontextmanager
async def acting_in(folder: Path, *script: Step) -> AsyncIterator[tuple[Actor, Cloud, ScriptedServer]]:
    """An actor that may write to this folder, and a cloud that answers by the script."""
    async with (
        ObjectStores(StorePolicy(file_roots=(PurePosixPath(folder),))) as stores,
        scripted_server() as server,
        Cloud(server.url, "or_key_0123456789", inference_url=server.url, organization_id="org-1") as cloud,
    ):
        server.will(*script)
        yield acting(stores, Cache()), cloud, server
