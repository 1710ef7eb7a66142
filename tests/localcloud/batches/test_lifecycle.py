"""The life of a batch on the cloud's clock (sections 2 and 3; the triggers are assumed)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from relay_localcloud.batches.states import ENDINGS, MOVES
from tests.localcloud.support.batches import batch_of, content, create, errors, jsonl, lines, record, run, upload
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, message, ok, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization, Server

DAY = 86_400


@pytest.fixture(autouse=True)
async def _one_second_a_record(server: Server) -> AsyncIterator[None]:
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 1})
    yield
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0.1})


async def status(organization: Organization, batch: Any) -> str:
    return str((await batch_of(organization, batch["id"]))["status"])


async def test_a_created_batch_has_every_required_field(organization: Organization) -> None:
    file_id = await upload(organization, jsonl([record("a")]))
    body = {"input_file_id": file_id, "endpoint": CHAT, "completion_window": "24h"}
    batch = await ok(organization, "POST", "/v1/batches", body)
    assert batch["id"].startswith("batch_")
    created_at = batch["created_at"]
    assert isinstance(created_at, int)
    assert batch == {
        "id": batch["id"],
        "object": "batch",
        "endpoint": CHAT,
        "input_file_id": file_id,
        "completion_window": "24h",
        "status": "validating",
        "created_at": created_at,
        "expires_at": created_at + DAY,
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
    }


async def test_each_phase_and_each_record_takes_its_time(organization: Organization) -> None:
    server = organization.server
    batch = await create(organization, [record(str(number)) for number in range(3)])
    seen = []
    for _ in range(7):
        shown = await batch_of(organization, batch["id"])
        seen.append((shown["status"], *shown["request_counts"].values()))
        await server.advance(1)
    assert seen == [
        ("validating", 0, 0, 0),
        ("in_progress", 3, 0, 0),
        ("in_progress", 3, 1, 0),
        ("in_progress", 3, 2, 0),
        ("finalizing", 3, 3, 0),
        ("completed", 3, 3, 0),
        ("completed", 3, 3, 0),
    ]
    shown = await batch_of(organization, batch["id"])
    assert shown["completed_at"] == batch["created_at"] + 5
    assert [name for name in shown if name.endswith("_at")] == ["created_at", "expires_at", "completed_at"]


async def test_the_model_is_settled_in_validation_and_the_usage_once_there_is_some(organization: Organization) -> None:
    batch = await create(organization, [record("a", "one two"), record("b", "three")])
    assert not {"model", "usage"} & batch.keys()
    await organization.server.advance(1)
    shown = await batch_of(organization, batch["id"])
    assert shown["model"] == "echo"
    assert "usage" not in shown
    await organization.server.advance(1)
    shown = await batch_of(organization, batch["id"])
    assert shown["usage"] == {"input_tokens": 2, "output_tokens": 2, "cost_nano_usd": 200}


async def test_every_record_has_one_line_in_the_order_of_the_input(organization: Organization) -> None:
    batch = await run(organization, [record("one", "first words"), record("two", "second")])
    assert batch["status"] == "completed"
    assert "error_file_id" not in batch
    answers = await lines(organization, batch)
    assert [line["custom_id"] for line in answers] == ["one", "two"]
    assert [sorted(line) for line in answers] == [["custom_id", "error", "id", "response"]] * 2
    response = answers[0]["response"]
    assert sorted(response) == ["body", "request_id", "status_code"]
    assert (response["status_code"], answers[0]["error"]) == (200, None)
    assert response["body"]["object"] == "chat.completion"
    assert response["body"]["choices"][0]["message"]["content"] == "first words"
    assert "relay" not in response["body"]
    assert len({line["id"] for line in answers}) == 2


async def test_records_that_fail_go_to_the_error_file(organization: Organization) -> None:
    batch = await run(organization, [record("good"), record("bad", stream=True), record("also good")])
    assert batch["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
    assert [line["custom_id"] for line in await lines(organization, batch)] == ["good", "also good"]
    assert [line["custom_id"] for line in await errors(organization, batch)] == ["bad"]


async def test_a_batch_whose_records_all_failed_is_completed(organization: Organization) -> None:
    batch = await run(organization, [record(str(number), model="refuse") for number in range(3)])
    assert batch["status"] == "completed"
    assert batch["request_counts"] == {"total": 3, "completed": 0, "failed": 3}
    assert batch["usage"] == {"input_tokens": 0, "output_tokens": 0, "cost_nano_usd": 0}
    assert "output_file_id" not in batch
    assert len(await errors(organization, batch)) == 3


async def test_a_batch_of_messages(organization: Organization) -> None:
    records = [{"custom_id": "m", "method": "POST", "url": MESSAGES, "body": message("good day")}]
    batch = await run(organization, records, MESSAGES)
    (line,) = await lines(organization, batch)
    assert line["response"]["body"]["content"] == [{"type": "text", "text": "good day"}]


async def test_output_files_are_files(organization: Organization) -> None:
    batch = await run(organization, [record("a")])
    shown = await ok(organization, "GET", f"/v1/files/{batch['output_file_id']}")
    assert shown["purpose"] == "batch_output"
    assert shown["bytes"] == len(await content(organization, batch["output_file_id"]))
    listed = await ok(organization, "GET", "/v1/files?purpose=batch_output")
    assert [file["id"] for file in listed["data"]] == [batch["output_file_id"]]


async def test_no_file_is_named_before_its_results_are_written(organization: Organization) -> None:
    batch = await create(organization, [record("a"), record("b", stream=True)])
    await organization.server.advance(3)
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "finalizing"
    assert not {"output_file_id", "error_file_id"} & shown.keys()
    assert len((await ok(organization, "GET", "/v1/files"))["data"]) == 1


async def test_a_batch_costs_half_and_the_charge_is_exact(organization: Organization) -> None:
    before = (await balance(organization))["balanceCents"]
    words = " ".join(["word"] * 1000)
    batch = await run(organization, [record(str(number), words) for number in range(150)])
    assert batch["usage"] == {
        "input_tokens": 150_000,
        "output_tokens": 150_000,
        "cost_nano_usd": 300_000 * 50,
    }
    assert (await balance(organization))["balanceCents"] == before - 1
    await run(organization, [record(str(number), words) for number in range(50)])
    assert (await balance(organization))["balanceCents"] == before - 2


async def test_cancelling_keeps_what_was_done_and_the_record_under_way(organization: Organization) -> None:
    server = organization.server
    batch = await create(organization, [record(str(number)) for number in range(10)])
    await server.advance(3.5)
    cancelled = await ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    assert cancelled["status"] == "cancelling"
    assert cancelled["request_counts"] == {"total": 10, "completed": 2, "failed": 0}
    await server.advance(0.9)
    assert await status(organization, batch) == "cancelling"
    await server.advance(0.1)
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "cancelled"
    assert shown["request_counts"] == {"total": 10, "completed": 3, "failed": 0}
    assert [line["custom_id"] for line in await lines(organization, shown)] == ["0", "1", "2"]
    assert "error_file_id" not in shown
    assert shown["cancelled_at"] - batch["created_at"] in {4, 5}  # whole seconds of an instant between two
    await server.advance(DAY)
    assert await batch_of(organization, batch["id"]) == shown


async def test_cancelling_in_validation_leaves_nothing_behind(organization: Organization) -> None:
    batch = await create(organization, [record("a")])
    await ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    await organization.server.advance(10)
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "cancelled"
    assert shown["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert not {"output_file_id", "error_file_id", "usage"} & shown.keys()


@pytest.mark.parametrize("reached", ["finalizing", "completed", "failed", "cancelling", "cancelled", "expired"])
async def test_it_cannot_be_cancelled_once_it_is_too_late(organization: Organization, reached: str) -> None:
    server = organization.server
    slow = {"expired": DAY}.get(reached, 1)
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": slow})
    records: list[object] = [record("a")] if reached != "failed" else ["no record"]
    batch = await create(organization, records)
    if reached in {"cancelling", "cancelled"}:
        await ok(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    waits = {"finalizing": 2.0, "cancelling": 0.0, "expired": DAY + 1.0}
    await server.advance(waits.get(reached, 10.0))
    assert await status(organization, batch) == reached
    answer = await call(organization, "POST", f"/v1/batches/{batch['id']}/cancel")
    assert refusal(answer) == (409, "invalid_request_error", None)
    assert await status(organization, batch) == reached


async def test_after_24_hours_it_expires_with_what_was_done(organization: Organization) -> None:
    server = organization.server
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 28_800})
    batch = await create(organization, [record(str(number)) for number in range(5)])
    await server.advance(DAY - 1)
    assert (await batch_of(organization, batch["id"]))["request_counts"] == {"total": 5, "completed": 2, "failed": 0}
    await server.advance(1)
    assert await status(organization, batch) == "finalizing"
    await server.advance(1)
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "expired"
    assert shown["expired_at"] == shown["expires_at"] + 1
    assert shown["request_counts"] == {"total": 5, "completed": 2, "failed": 0}
    assert [line["custom_id"] for line in await lines(organization, shown)] == ["0", "1"]
    left = await errors(organization, shown)
    assert [line["custom_id"] for line in left] == ["2", "3", "4"]
    assert {(line["response"], line["error"]["code"]) for line in left} == {(None, "batch_expired")}


async def test_one_advance_over_everything_is_the_same_as_many(organization: Organization) -> None:
    records = [record(str(number), stream=number % 3 == 0) for number in range(50)]
    slowly, at_once = await create(organization, records), await create(organization, records)
    for _ in range(53):
        await organization.server.advance(1)
    another = await create(organization, records)
    await organization.server.advance(1000)
    batches = [await batch_of(organization, batch["id"]) for batch in (slowly, at_once, another)]
    for batch in batches:
        assert batch["completed_at"] - batch["created_at"] == 52
        assert batch["request_counts"] == {"total": 50, "completed": 33, "failed": 17}
    answers = [[line["custom_id"] for line in await lines(organization, batch)] for batch in batches]
    assert answers[0] == answers[1] == answers[2] == [str(number) for number in range(50) if number % 3]


async def test_two_batches_run_side_by_side(organization: Organization) -> None:
    first = await create(organization, [record(str(number)) for number in range(4)])
    second = await create(organization, [record(str(number)) for number in range(4)])
    await organization.server.advance(3)
    for batch in (first, second):
        assert (await batch_of(organization, batch["id"]))["request_counts"]["completed"] == 2


async def test_in_real_time_it_goes_by_itself(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "real")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0})
    organization = server.seeded()
    batch = await create(organization, [record(str(number)) for number in range(100)])
    # The move ends once all that falls due within it is done.
    await server.advance(3)
    assert (await batch_of(organization, batch["id"]))["status"] == "completed"


async def test_answers_keep_every_character(organization: Organization) -> None:
    said = 'größe \u2028 \u0085 \U0001f600 \\ " tab\t'
    batch = await run(organization, [record("ключ-\u2028", said)])
    raw = await content(organization, batch["output_file_id"])
    (line,) = raw.decode().splitlines()
    parsed = json.loads(line)
    assert parsed["custom_id"] == "ключ-\u2028"
    assert parsed["response"]["body"]["choices"][0]["message"]["content"] == said


def test_every_status_has_its_moves_and_final_ones_have_none() -> None:
    moves = {(str(status), trigger.name): str(following) for (status, trigger), following in MOVES.items()}
    assert moves == {
        ("validating", "FOUND_VALID"): "in_progress",
        ("validating", "FOUND_INVALID"): "failed",
        ("validating", "CANCEL"): "cancelling",
        ("in_progress", "ALL_RECORDS_DONE"): "finalizing",
        ("in_progress", "TIME_IS_UP"): "finalizing",
        ("in_progress", "CANCEL"): "cancelling",
    }
    assert {str(ending) for ending in ENDINGS.values()} == {"completed", "expired", "cancelled"}
