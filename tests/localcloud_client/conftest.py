"""A local cloud with a frozen clock, and the client with an organization of the test's own."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from relay_client import CallPolicy, Cloud
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.localcloud import Control, Json, Organization
from tests.support.process import Process

_COMMAND = Path(sys.executable).with_name("relay-localcloud")
# Only faults make it try again: a slow machine does not.
POLICY = CallPolicy(
    connect_seconds=PATIENCE_SECONDS,
    attempt_seconds=PATIENCE_SECONDS,
    total_seconds=2 * PATIENCE_SECONDS,
    idle_seconds=PATIENCE_SECONDS,
    first_backoff_seconds=0.01,
)


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Json]:
    """The first line of the run's local cloud, which also lists VMs."""
    folder = tmp_path_factory.mktemp("localcloud")
    ready = folder / "ready.json"

    async def answers() -> bool:
        return "\n" in ready.read_text()

    ports = ["--port", "0", "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0"]
    argv = [str(_COMMAND), "serve", "--ephemeral", "--clock", "frozen", "--list-vms", *ports]
    process = Process("relay-localcloud", argv, folder / "log", ready=answers, stdout=ready)
    asyncio.run(process.start())
    yield json.loads(ready.read_text().partition("\n")[0])
    process.end_now()


@pytest.fixture(scope="module")
def announced(kept: Json) -> Json:
    """The same, of a cloud that is freshly seeded for the module."""
    asyncio.run(Control(kept["controlUrl"], kept["managementUrl"]).call("POST", "/reset"))
    return kept


@pytest.fixture(scope="module")
def control(announced: Json) -> Control:
    """The control interface of the module's local cloud."""
    return Control(announced["controlUrl"], announced["managementUrl"])


@pytest.fixture(scope="module")
def inference_url(announced: Json) -> str:
    """Where the module's local cloud serves models, files and batches."""
    url: str = announced["inferenceUrl"]
    return url


@pytest_asyncio.fixture
async def organization(control: Control) -> Organization:
    """A fresh organization with funds and a key with every scope."""
    return await control.create_organization("Client")


@pytest_asyncio.fixture
async def cloud(organization: Organization, inference_url: str) -> AsyncIterator[Cloud]:
    """The client with that organization's key."""
    url, key = organization.management_url, organization.api_key
    async with Cloud(url, key, inference_url=inference_url, policy=POLICY) as made:
        yield made
