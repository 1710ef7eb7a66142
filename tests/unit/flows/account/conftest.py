"""An account, whose sweeps or passes a test makes."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from aiohttp import web
from pydantic import JsonValue

from relay_operator.api.meta import API_VERSION
from tests.unit.flows.account.books_kept import Kept
from tests.unit.flows.account.passes import MoneyCloud, Passes
from tests.unit.flows.account.swept import ACCOUNT, Listed, Swept
from tests.unit.flows.managed.world import NAMESPACE, World


@pytest.fixture
def kept(world: World) -> Kept:
    return Kept(world)


@pytest.fixture
def swept(world: World) -> Swept:
    made = Swept(world)
    made.knows("GpuPod", Listed)
    made.has(ACCOUNT)
    return made


@pytest_asyncio.fixture
async def passes(world: World) -> AsyncIterator[Passes]:
    cloud = MoneyCloud()
    cloud.answers.set()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cloud.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cloud.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    api_key: JsonValue = {"api-key": base64.b64encode(b"or_test_key").decode()}
    world.server.put("secrets", {"metadata": {"name": "key", "namespace": NAMESPACE}, "data": api_key})
    spec: JsonValue = {"baseUrl": cloud.url, "apiKeySecretRef": {"name": "key", "key": "api-key"}}
    metadata: JsonValue = {"name": "default", "namespace": NAMESPACE}
    account: dict[str, JsonValue] = {"apiVersion": API_VERSION, "kind": "CloudAccount", "metadata": metadata}
    world.server.put("cloudaccounts", {**account, "spec": spec})
    made = Passes(world, cloud)
    made.begin()
    yield made
    await made.accounts.close()
    await runner.cleanup()
