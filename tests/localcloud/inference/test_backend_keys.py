"""Keys of backends at rest: encrypted as those of registries are, also in states that have them in plain text."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest_asyncio

from tests.localcloud.support.at_rest import files_with
from tests.localcloud.support.inference import CHAT, call, chat, ok, refusal
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.server import Organization

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localcloud.conftest import StartServer

KEY = "sk-of-the-server-behind-the-model"


@pytest_asyncio.fixture
async def behind() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def add(organization: Organization, endpoint: str) -> Any:
    body = {
        "provider": "openai_compatible",
        "ref": "echo",
        "endpoint": endpoint,
        "nativeFamilies": ["chat_completions"],
        "auth": "api_key",
        "apiKey": KEY,
    }
    return await organization.ok("POST", "/v1/inference/models/mine/backends", body)


async def key_that_is_sent(organization: Organization, behind: ModelServer) -> Any:
    await ok(organization, "POST", CHAT, chat("x", "mine"))
    return behind.received[-1][0]["authorization"]


async def test_the_key_of_a_backend_is_in_no_file_and_no_export_and_is_sent_after_a_kill(
    start_server: StartServer, tmp_path: Path, behind: ModelServer
) -> None:
    server = start_server("--state", str(tmp_path), "--clock", "frozen")
    await add(server.seeded(), behind.url)
    assert KEY not in (await server.control("GET", "/export")).raw.decode()
    server.kill()
    assert not files_with(tmp_path, KEY)
    again = start_server("--state", str(tmp_path))
    assert await key_that_is_sent(again.seeded(), behind) == f"Bearer {KEY}"


async def test_the_plain_key_of_a_former_state_is_encrypted_when_it_is_opened(
    start_server: StartServer, tmp_path: Path, behind: ModelServer
) -> None:
    first = start_server("--state", str(tmp_path), "--clock", "frozen")
    await add(first.seeded(), behind.url)
    first.stop()
    with closing(sqlite3.connect(tmp_path / "state.db")) as state, state:
        state.execute("UPDATE inference_backends SET api_key = ?, sealed_key = NULL", (KEY,))
    second = start_server("--state", str(tmp_path))
    assert await key_that_is_sent(second.seeded(), behind) == f"Bearer {KEY}"
    second.stop()
    assert not files_with(tmp_path, KEY)


async def test_the_plain_key_of_a_former_export_is_encrypted_when_it_is_imported(
    start_server: StartServer, behind: ModelServer
) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await add(server.seeded(), behind.url)
    document = await server.ok("GET", "/export")
    document["tables"]["inference_backends"][0].update(api_key=KEY, sealed_key=None)
    await server.ok("POST", "/import", document)
    assert KEY not in (await server.control("GET", "/export")).raw.decode()
    assert await key_that_is_sent(server.seeded(), behind) == f"Bearer {KEY}"


async def test_imported_elsewhere_a_backend_is_there_and_502_until_it_is_made_anew(
    start_server: StartServer, behind: ModelServer
) -> None:
    first = start_server("--ephemeral", "--clock", "frozen")
    made = await add(first.seeded(), behind.url)
    second = start_server("--ephemeral", "--clock", "frozen")
    await second.ok("POST", "/import", await first.ok("GET", "/export"))
    moved = Organization(second, first.ready["organizationId"], first.ready["apiKey"], "", "")
    answer = await call(moved, "POST", CHAT, chat("x", "mine"))
    assert refusal(answer)[0] == 502
    assert "register it again" in answer.body["error"]["message"]
    assert not behind.received
    await moved.ok("DELETE", f"/v1/inference/models/mine/backends/{made['id']}")
    await add(moved, behind.url)
    assert await key_that_is_sent(moved, behind) == f"Bearer {KEY}"
