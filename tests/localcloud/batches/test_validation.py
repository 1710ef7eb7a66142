"""What is wrong with a whole batch, found in validation, and with single records (assumed but for two codes)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from tests.localcloud.support.batches import batch_of, errors, failure, jsonl, lines, record, run, upload
from tests.localcloud.support.inference import CHAT, MESSAGES, call, message, ok, refusal
from tests.localcloud.support.server import request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

GOOD = json.dumps(record("good")).encode()
LIMIT = 10 * 1024 * 1024


async def validated(organization: Organization, content: bytes, endpoint: str = CHAT) -> Any:
    """A batch of this file, once it has been validated."""
    file_id = await upload(organization, content)
    batch = await ok(organization, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": endpoint})
    await organization.server.advance(1)
    return await batch_of(organization, batch["id"])


async def problems(organization: Organization, content: bytes, endpoint: str = CHAT) -> list[tuple[str, int | None]]:
    """Code and line of what is wrong with this file."""
    batch = await validated(organization, content, endpoint)
    assert batch["status"] == "failed"
    assert batch["failed_at"] == batch["created_at"] + 1
    assert batch["request_counts"] == {"total": 0, "completed": 0, "failed": 0}
    assert not {"output_file_id", "error_file_id", "usage"} & batch.keys()
    assert batch["errors"]["object"] == "list"
    found = batch["errors"]["data"]
    assert all(sorted(problem) == ["code", "line", "message"] and problem["message"] for problem in found)
    return [(problem["code"], problem["line"]) for problem in found]


def without(name: str) -> bytes:
    return json.dumps({key: value for key, value in record("x").items() if key != name}).encode()


def changed(**fields: object) -> bytes:
    return json.dumps({**record("x"), **fields}).encode()


BROKEN_LINES = {
    "no JSON": (b"{nonsense", "invalid_json_line"),
    "a bare word": (b"hello", "invalid_json_line"),
    "an array": (b"[]", "invalid_json_line"),
    "a string": (b'"x"', "invalid_json_line"),
    "half of it": (GOOD[:40], "invalid_json_line"),
    "two in one line": (GOOD + GOOD, "invalid_json_line"),
    "no UTF-8": (GOOD.replace(b"good", b"\xff\xfe"), "invalid_json_line"),
    "infinite": (GOOD.replace(b'"good"', b"Infinity"), "invalid_json_line"),
    "too large a number": (json.dumps(record("x", seed=0.5)).replace("0.5", "1e400").encode(), "invalid_json_line"),
    "no body": (without("body"), "invalid_json_line"),
    "a body that is no object": (changed(body="x"), "invalid_json_line"),
    "no custom_id": (without("custom_id"), "missing_custom_id"),
    "an empty custom_id": (changed(custom_id=""), "missing_custom_id"),
    "a number for a custom_id": (changed(custom_id=7), "missing_custom_id"),
    "no method": (without("method"), "invalid_method"),
    "another method": (changed(method="GET"), "invalid_method"),
    "no url": (without("url"), "url_mismatch"),
    "another url": (changed(url=MESSAGES), "url_mismatch"),
    "a full url": (changed(url="http://127.0.0.1" + CHAT), "url_mismatch"),
    "another model": (json.dumps(record("x", model="chat-only")).encode(), "model_mismatch"),
    "the custom_id of another": (GOOD, "duplicate_custom_id"),
}


@pytest.mark.parametrize("kind", BROKEN_LINES)
async def test_one_broken_line_fails_the_batch_and_is_named(organization: Organization, kind: str) -> None:
    line, code = BROKEN_LINES[kind]
    assert await problems(organization, GOOD + b"\n" + line + b"\n") == [(code, 2)]


async def test_a_line_that_is_no_json_is_one_line_whatever_its_message_says_of_its_columns(
    organization: Organization,
) -> None:
    batch = await validated(organization, GOOD + b'\n{"a"\n[1,]\n')
    assert [(problem["line"], problem["message"]) for problem in batch["errors"]["data"]] == [
        (2, "This line is not valid JSON: EOF while parsing an object at column 4."),
        (3, "This line is not valid JSON: trailing comma at column 4."),
    ]


async def test_every_broken_line_is_named_up_to_a_hundred(organization: Organization) -> None:
    content = b"\n".join([GOOD, b"{", changed(method="PUT"), b"", without("custom_id")])
    expected = [("invalid_json_line", 2), ("invalid_method", 3), ("missing_custom_id", 5)]
    assert await problems(organization, content) == expected
    assert len(await problems(organization, b"{\n" * 5000)) == 100


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\r\n\t\n"])
async def test_a_file_without_a_record(organization: Organization, content: bytes) -> None:
    assert await problems(organization, content) == [("empty_file", None)]


async def test_a_model_that_does_not_exist(organization: Organization) -> None:
    assert await problems(organization, jsonl([record("a", model="gpt-9")])) == [("model_not_found", None)]
    nothing = {**record("a"), "body": {"messages": []}}
    assert await problems(organization, jsonl([nothing])) == [("model_not_found", 1)]


async def test_a_line_over_ten_mebibytes(organization: Organization) -> None:
    content = GOOD + b"\n" + json.dumps(record("long", "x" * LIMIT)).encode() + b"\n" + without("url") + b"\n"
    assert await problems(organization, content) == [("invalid_json_line", 2), ("url_mismatch", 3)]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"], ids=repr)
@pytest.mark.parametrize("over", [0, 1])
async def test_the_limit_of_a_line_does_not_count_its_line_break(
    organization: Organization, end: bytes, over: int
) -> None:
    empty = json.dumps(record("long", "")).encode()
    line = empty.replace(b'""', b'"' + b"x" * (LIMIT + over - len(empty)) + b'"')
    assert len(line) == LIMIT + over
    batch = await validated(organization, GOOD + b"\n" + line + end)
    assert [problem["line"] for problem in batch.get("errors", {"data": []})["data"]] == [2] * over


async def test_a_line_of_too_many_values(organization: Organization) -> None:
    content = GOOD + b"\n" + json.dumps({**record("many"), "more": [0] * 50_000}).encode() + b"\n"
    assert await problems(organization, content) == [("invalid_json_line", 2)]


async def test_blank_lines_other_line_ends_and_no_last_newline_are_no_problem(organization: Organization) -> None:
    records = [json.dumps(record(name)).encode() for name in "abc"]
    batch = await validated(organization, b"\r\n".join([records[0], b"", records[1]]) + b"\n\n  " + records[2])
    await organization.server.advance(10)
    shown = await batch_of(organization, batch["id"])
    assert [line["custom_id"] for line in await lines(organization, shown)] == ["a", "b", "c"]


async def test_blank_lines_without_end_are_not_read_over(organization: Organization) -> None:
    line = json.dumps(record("after")).encode()
    assert await problems(organization, GOOD + b"\n" * 20_000 + line) == [("invalid_json_line", 20_001)]
    batch = await validated(organization, GOOD + b"\n" * 20_000)
    assert batch["request_counts"]["total"] == 1


async def test_openapi_says_what_a_batch_always_has_and_every_batch_fits_it(organization: Organization) -> None:
    components = (await request("GET", organization.server.url + "/openapi.json")).body["components"]
    schemas = components["schemas"]
    specified = {"id", "object", "endpoint", "input_file_id", "completion_window", "status", "created_at"}
    assert specified | {"request_counts"} <= set(schemas["Batch"]["required"])
    assert schemas["BatchCounts"]["required"] == ["total", "completed", "failed"]
    fits = jsonschema.Draft202012Validator({"$ref": "#/components/schemas/Batch", "components": components})
    fits.validate(await run(organization, [record("good"), record("bad", stream=True)], metadata={"a": "b"}))
    for content, line in ((b"", None), (b"{", 1)):
        batch = await validated(organization, content)
        assert batch["errors"]["data"][0]["line"] == line
        fits.validate(batch)


async def test_duplicates_are_found_however_far_apart(organization: Organization) -> None:
    content = jsonl([record(str(number)) for number in range(3000)] + [record("0")])
    assert await problems(organization, content) == [("duplicate_custom_id", 3001)]


async def test_the_validated_input_may_be_deleted_once_the_batch_failed(organization: Organization) -> None:
    batch = await validated(organization, b"{")
    answer = await call(organization, "DELETE", f"/v1/files/{batch['input_file_id']}")
    assert answer.status == 200


@pytest.mark.parametrize("stream", [True, "yes", 1])
async def test_a_record_that_would_stream(organization: Organization, stream: object) -> None:
    response, error = await failure(organization, record("s", stream=stream))
    assert (response, error["code"]) == (None, "stream_unsupported")


async def test_not_streaming_may_be_said(organization: Organization) -> None:
    batch = await run(organization, [record("a", stream=False), record("b", stream=None)])
    assert batch["request_counts"]["completed"] == 2


@pytest.mark.parametrize("value", [{"url": "https://tools.example.com"}, None, "x"])
async def test_a_bare_tool_config_has_moved(organization: Organization, value: object) -> None:
    response, error = await failure(organization, record("t", tool_config=value))
    assert (response, error["code"]) == (None, "tool_config_moved")
    assert error["message"].startswith("body.tool_config: ")


@pytest.mark.parametrize("value", [{"url": "https://tools.example.com"}, None, "x"])
async def test_a_tool_config_beside_the_body_has_moved_as_well(organization: Organization, value: object) -> None:
    response, error = await failure(organization, {**record("t"), "tool_config": value})
    assert (response, error["code"]) == (None, "tool_config_moved")
    assert error["message"].startswith("tool_config: ")


REFUSING_MODELS = {
    "refuse": (422, "invalid_request_error", None),
    "busy": (429, "rate_limit_error", "rate_limit_error"),
    "down": (502, "api_error", "upstream_error"),
    "full": (503, "api_error", "upstream_unavailable"),
    "messages-only": (400, "invalid_request_error", "unsupported_api"),
}


@pytest.mark.parametrize("model", REFUSING_MODELS)
async def test_what_the_model_refuses_has_the_models_answer(organization: Organization, model: str) -> None:
    response, error = await failure(organization, record("r", model=model))
    status, kind, code = REFUSING_MODELS[model]
    assert error is None
    assert response["status_code"] == status
    assert (response["body"]["error"]["type"], response["body"]["error"]["code"]) == (kind, code)


async def test_a_body_that_the_model_cannot_read_fails_its_record(organization: Organization) -> None:
    broken = {**record("a"), "body": {"model": "echo", "messages": []}}
    batch = await run(organization, [broken, record("b")])
    assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
    (line,) = await errors(organization, batch)
    assert line["response"]["status_code"] == 400


@pytest.mark.parametrize("unfit", ["a\0b", 2**63, {"deep": [-(2**63) - 1]}], ids=["U+0000", "65 bits", "deep"])
async def test_what_is_400_online_is_400_in_a_record(organization: Organization, unfit: object) -> None:
    body = record("a", user_data=unfit)["body"]
    online = await call(organization, "POST", CHAT, body)
    response, error = await failure(organization, record("a", user_data=unfit))
    assert (error, response["status_code"], response["body"]) == (None, online.status, online.body)
    assert online.status == 400


async def test_a_messages_record_needs_max_tokens(organization: Organization) -> None:
    body = {key: value for key, value in message("hi").items() if key != "max_tokens"}
    batch = await run(organization, [{"custom_id": "m", "method": "POST", "url": MESSAGES, "body": body}], MESSAGES)
    (line,) = await errors(organization, batch)
    assert (line["response"]["status_code"], line["response"]["body"]["type"]) == (400, "error")


BAD_CREATES: dict[str, dict[str, Any]] = {
    "no input": {"endpoint": CHAT},
    "an empty input": {"endpoint": CHAT, "input_file_id": ""},
    "both inputs": {"endpoint": CHAT, "input_file_id": "{file}", "requests": [record("a")]},
    "no endpoint": {"input_file_id": "{file}"},
    "another endpoint": {"endpoint": "/v1/embeddings", "input_file_id": "{file}"},
    "another window": {"endpoint": CHAT, "input_file_id": "{file}", "completion_window": "1h"},
    "a number for metadata": {"endpoint": CHAT, "input_file_id": "{file}", "metadata": 1},
    "metadata with numbers": {"endpoint": CHAT, "input_file_id": "{file}", "metadata": {"a": 1}},
    "too many metadata": {"endpoint": CHAT, "input_file_id": "{file}", "metadata": {str(n): "" for n in range(17)}},
    "a long key": {"endpoint": CHAT, "input_file_id": "{file}", "metadata": {"k" * 65: ""}},
    "a long value": {"endpoint": CHAT, "input_file_id": "{file}", "metadata": {"k": "v" * 513}},
    "no records": {"endpoint": CHAT, "requests": []},
    "records that are no list": {"endpoint": CHAT, "requests": "x"},
    "records that are no objects": {"endpoint": CHAT, "requests": ["x"]},
    "a number for a file": {"endpoint": CHAT, "input_file_id": 1},
}


@pytest.mark.parametrize("kind", BAD_CREATES)
async def test_a_create_that_makes_no_sense_is_400(organization: Organization, kind: str) -> None:
    file_id = await upload(organization, GOOD)
    body = {name: file_id if value == "{file}" else value for name, value in BAD_CREATES[kind].items()}
    answer = await call(organization, "POST", "/v1/batches", body)
    assert refusal(answer) == (400, "invalid_request_error", None)
    assert (await ok(organization, "GET", "/v1/batches"))["data"] == []
    assert [file["id"] for file in (await ok(organization, "GET", "/v1/files"))["data"]] == [file_id]


async def test_a_create_may_leave_out_or_null_what_is_optional(organization: Organization) -> None:
    file_id = await upload(organization, GOOD)
    body = {"input_file_id": file_id, "endpoint": CHAT, "metadata": None, "requests": None, "completion_window": None}
    assert "metadata" not in await ok(organization, "POST", "/v1/batches", body)


async def test_records_come_inline_and_can_be_read_again(organization: Organization) -> None:
    records = [record("a", "größe"), record("b")]
    batch = await ok(organization, "POST", "/v1/batches", {"requests": records, "endpoint": CHAT})
    answer = await call(organization, "GET", f"/v1/files/{batch['input_file_id']}/content")
    assert [json.loads(line) for line in answer.raw.splitlines()] == records
    await organization.server.advance(10)
    shown = await batch_of(organization, batch["id"])
    assert [line["custom_id"] for line in await lines(organization, shown)] == ["a", "b"]


@pytest.mark.parametrize(
    ("records", "over"),
    [
        ([record("a", "x" * LIMIT)], f"The body is over {LIMIT} bytes"),
        ([record("a")] * 6000, "The body has over 50000 values (items of lists and members of objects)"),
    ],
    ids=["bytes", "values"],
)
async def test_inline_records_over_ten_mebibytes_are_413(
    organization: Organization, records: list[dict[str, Any]], over: str
) -> None:
    answer = await call(organization, "POST", "/v1/batches", {"requests": records, "endpoint": CHAT})
    assert refusal(answer) == (413, "invalid_request_error", "payload_too_large")
    file = "upload the records as a file with POST /v1/files, and give its id as input_file_id."
    assert answer.body["error"]["message"] == f"{over}: {file}"


async def test_metadata_is_echoed_unchanged(organization: Organization) -> None:
    metadata = {"token": "abc", "ключ": "значение \U0001f600", "": "", **{str(n): "v" * 512 for n in range(13)}}
    body = {"requests": [record("a")], "endpoint": CHAT, "metadata": metadata}
    batch = await ok(organization, "POST", "/v1/batches", body)
    assert batch["metadata"] == metadata
    assert (await batch_of(organization, batch["id"]))["metadata"] == metadata
