"""Batches go on after a kill: no record is charged twice, no line is lost or doubled."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.batches import batch_of, content, create, errors, lines, record
from tests.localcloud.support.executors import HttpExecutor
from tests.localcloud.support.inference import balance, call, ok
from tests.localcloud.support.server import request
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Answer, Organization, Server

RECORDS = 20_000
WORDS = " ".join(["word"] * 10)


async def until_under_way(organization: Organization, batch: Any) -> int:
    """Return once some records are done, and how many."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            counts = (await batch_of(organization, batch["id"]))["request_counts"]
            if counts["completed"]:
                return int(counts["completed"])


async def check_whole(organization: Organization, batch: Any, count: int) -> None:
    """Every record once, in order, and paid once."""
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "completed"
    assert shown["request_counts"] == {"total": count, "completed": count, "failed": 0}
    assert [line["custom_id"] for line in await lines(organization, shown)] == [str(number) for number in range(count)]
    assert shown["usage"] == {
        "input_tokens": 10 * count,
        "output_tokens": 10 * count,
        "cost_nano_usd": 20 * count * 50,
    }


def add_what_was_not_kept(folder: Path) -> None:
    """Leave what a process leaves that is killed after it wrote lines and before it kept them."""
    for path in folder.iterdir():
        if b'"custom_id":"0","response"' in path.read_bytes()[:200]:
            with path.open("ab") as output:
                output.write(b'{"id":"never kept"}\n' * 100_000)


async def killed(server: Server) -> None:
    await asyncio.to_thread(server.kill)


async def test_a_batch_goes_on_after_kills(start_server: StartServer, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*state)
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 1 / RECORDS})
    before = (await balance(server.seeded()))["balanceCents"]
    batch = await create(server.seeded(), [record(str(number), WORDS) for number in range(RECORDS)])
    reached = []
    # A second for the validation and half of the records: it is not done, however late a kill comes.
    moving = asyncio.create_task(server.control("POST", "/clock", {"advanceSeconds": 1.5}))
    for _ in range(3):
        reached.append(await until_under_way(server.seeded(), batch))
        await killed(server)
        await asyncio.gather(moving, return_exceptions=True)
        add_what_was_not_kept(tmp_path / "state" / "files")
        server = start_server(*state)
        moving = asyncio.create_task(server.control("POST", "/clock", {"advanceSeconds": 0}))
    await moving
    await server.advance(2)
    assert reached == sorted(reached)
    assert reached[0] < RECORDS
    await check_whole(server.seeded(), batch, RECORDS)
    assert (await balance(server.seeded()))["balanceCents"] == before - 20 * RECORDS * 50 // 10_000_000


async def test_a_kill_in_validation_begins_it_again(start_server: StartServer, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*state)
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0})
    batch = await create(server.seeded(), [record(str(number), WORDS) for number in range(RECORDS)])
    await killed(server)
    server = start_server(*state)
    await server.advance(3)
    await check_whole(server.seeded(), batch, RECORDS)


async def test_a_kill_while_a_tool_is_called_calls_it_again_and_pays_once(
    start_server: StartServer, tmp_path: Path
) -> None:
    state = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*state)
    await server.ok("PATCH", "/settings", {"allowLoopbackExecutors": True})
    tool = {"type": "function", "function": {"name": "look"}}
    async with HttpExecutor(hang=asyncio.Event()) as executor:
        relay = {"tool_config": {"url": executor.url}}
        batch = await create(server.seeded(), [record("r", "please look", "tools", tools=[tool], relay=relay)])
        moving = asyncio.create_task(server.control("POST", "/clock", {"advanceSeconds": 10}))
        async with asyncio.timeout(PATIENCE_SECONDS):
            await executor.called.wait()
        await killed(server)
        await asyncio.gather(moving, return_exceptions=True)
        assert executor.hang is not None
        executor.hang.set()
        server = start_server(*state)
        await server.advance(0)
    shown = await batch_of(server.seeded(), batch["id"])
    assert shown["request_counts"] == {"total": 1, "completed": 1, "failed": 0}, await errors(server.seeded(), shown)
    assert len(executor.received) == 2
    assert shown["usage"] == {"input_tokens": 7, "output_tokens": 5, "cost_nano_usd": 600}


async def test_an_exported_state_goes_on_elsewhere_with_its_files(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 1})
    organization = server.seeded()
    batch = await create(organization, [record(str(number), WORDS) for number in range(10)])
    await server.advance(5)
    exported = await server.control("GET", "/export")
    elsewhere = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    await create(elsewhere.seeded(), [record("of another state")])
    imported = await request("POST", elsewhere.ready["controlUrl"] + "/import", raw=exported.raw)
    assert imported.status == 200
    there = replace(organization, server=elsewhere)
    assert [file["id"] for file in (await ok(there, "GET", "/v1/files"))["data"]] == [batch["input_file_id"]]
    await elsewhere.advance(10)
    await check_whole(there, batch, 10)
    seeded = tmp_path / "state.json"
    seeded.write_bytes(exported.raw)
    third = start_server("--ephemeral", "--seed", str(seeded))
    await third.advance(10)
    await check_whole(replace(organization, server=third), batch, 10)


async def test_a_state_whose_files_are_missing_is_refused_and_nothing_changes(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    batch = await create(server.seeded(), [record("0", WORDS)])
    document = (await server.control("GET", "/export")).body
    input_file_id = batch["input_file_id"]
    attempts: list[Any] = [{}, {input_file_id: "no base64!"}, [], {input_file_id: 1}]
    for files in attempts:
        answer = await server.control("POST", "/import", {**document, "files": files})
        assert answer.refusal == (400, "invalid_request")
    await server.advance(10)
    await check_whole(server.seeded(), batch, 1)


async def test_requests_are_answered_while_a_file_is_validated(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")

    async def statuses() -> tuple[list[str], str]:
        """Those that are answered while a file is validated, if this is asked in time, and the one after it."""
        batch = await create(server.seeded(), [record(str(number), WORDS) for number in range(RECORDS)])
        moving = asyncio.create_task(server.advance(1))
        seen = []
        while not moving.done():
            seen.append((await batch_of(server.seeded(), batch["id"]))["status"])
        await moving
        return seen, (await batch_of(server.seeded(), batch["id"]))["status"]

    # The first may have come before the move, the last after it.
    _, then = await eventually(statuses, lambda told: told[0][1:-1].count("validating") > 1)
    assert then == "in_progress"


async def test_requests_are_answered_while_many_records_run(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0})

    async def answers() -> tuple[list[Answer], int]:
        """What is answered while records run, if this is asked in time, and how many lines there are then."""
        batch = await create(server.seeded(), [record(str(number), WORDS) for number in range(RECORDS)])
        moving = asyncio.create_task(server.advance(3))
        await until_under_way(server.seeded(), batch)
        told = [await call(server.seeded(), "GET", f"/v1/batches/{batch['id']}") for _ in range(3)]
        await moving
        shown = await batch_of(server.seeded(), batch["id"])
        return told, len((await content(server.seeded(), shown["output_file_id"])).splitlines())

    told, written = await eventually(answers, lambda said: said[0][0].body["request_counts"]["completed"] < RECORDS)
    assert ([answer.status for answer in told], written) == ([200] * 3, RECORDS)
