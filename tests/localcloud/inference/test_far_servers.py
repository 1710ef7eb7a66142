"""Real servers behind a model: their answers, streams, failures and capacity; one of them is a second local cloud."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import pytest_asyncio

from tests.localcloud.inference.test_backends import add
from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, events, message, ok, refusal
from tests.localcloud.support.modelserver import ModelServer, completion
from tests.localcloud.support.server import Organization
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.localcloud.support.pool import Pool
    from tests.localcloud.support.server import Server


A_CENT_OF_TOKENS = 100_000


@pytest.fixture(scope="module")
def far(pool: Pool) -> Iterator[Server]:
    """A second local cloud, whose models are what is behind the first one's."""
    second = pool.take(("--ephemeral", "--clock", "frozen"))
    yield second
    pool.give_back(second)


@pytest.fixture(autouse=True)
async def _no_faults_left(far: Server) -> AsyncIterator[None]:
    yield
    await far.ok("DELETE", "/faults")


@pytest_asyncio.fixture
async def server_behind(organization: Organization) -> AsyncIterator[ModelServer]:
    """A server behind the model `mine`, in both families, without authentication."""
    async with ModelServer() as behind:
        await add(organization, behind.url)
        yield behind


async def add_far(organization: Organization, far: Server, model: str = "mine", /, **more: Any) -> Any:
    key = {"auth": "api_key", "apiKey": far.ready["apiKey"]}
    return await add(organization, far.ready["inferenceUrl"] + "/v1", model, **key, **more)


async def asked_of(far: Server) -> int:
    items = (await far.ok("GET", "/requests?after=0"))["items"]
    return sum(item["path"] in {CHAT, MESSAGES} for item in items)


def body_of(path: str, content: object, **more: Any) -> dict[str, Any]:
    return (chat if path == CHAT else message)(content, "mine", **more)


async def test_a_change_of_a_backend_counts_from_the_next_request_on(
    organization: Organization, server_behind: ModelServer
) -> None:
    made = await add(organization, "http://127.0.0.1:9/v1", "moving")
    path = f"{BACKENDS.format(model='moving')}/{made['id']}"
    assert (await call(organization, "POST", CHAT, chat("hello", "moving"))).status == 502
    await organization.ok("PATCH", path, {"endpoint": server_behind.url})
    assert (await call(organization, "POST", CHAT, chat("hello", "moving"))).status == 200


async def test_another_key_of_a_backend_counts_from_the_next_request_on(
    organization: Organization, far: Server
) -> None:
    made = await add(organization, far.ready["inferenceUrl"] + "/v1", auth="api_key", apiKey="or_of_nobody")
    assert (await call(organization, "POST", CHAT, chat("hello", "mine"))).status == 502
    await organization.ok("PATCH", f"{BACKENDS.format(model='mine')}/{made['id']}", {"apiKey": far.ready["apiKey"]})
    assert (await call(organization, "POST", CHAT, chat("hello", "mine"))).status == 200


async def test_a_model_is_there_while_it_has_a_backend_and_for_its_organization_alone(
    organization: Organization, far: Server
) -> None:
    other = await organization.server.organization()
    made = await add_far(organization, far, nativeFamilies=["chat_completions"])
    assert (await ok(organization, "GET", "/v1/models/mine"))["supported_apis"] == ["chat_completions"]
    assert (await ok(organization, "GET", "/v1/models"))["last_id"] == "mine"
    assert (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status == 200
    answer = await call(organization, "POST", MESSAGES, body_of(MESSAGES, "x"))
    assert refusal(answer, MESSAGES) == (400, "invalid_request_error", "unsupported_api")
    absent = (404, "not_found_error", "model_not_found")
    assert refusal(await call(other, "POST", CHAT, body_of(CHAT, "x"))) == absent
    assert refusal(await call(other, "GET", "/v1/models/mine")) == absent
    await organization.call("DELETE", f"{BACKENDS.format(model='mine')}/{made['id']}")
    assert refusal(await call(organization, "POST", CHAT, body_of(CHAT, "x"))) == absent


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_real_server_answers_under_the_models_own_name(
    organization: Organization, far: Server, path: str
) -> None:
    await add_far(organization, far)
    before = await asked_of(far)
    answer = await ok(organization, "POST", path, body_of(path, "one two"))
    assert answer["model"] == "mine"
    said = answer["choices"][0]["message"]["content"] if path == CHAT else answer["content"][0]["text"]
    assert said == "one two"
    assert await asked_of(far) == before + 1


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_comes_back_goes_round_so_often_and_no_more(
    organization: Organization, path: str, *, stream: bool
) -> None:
    here = {"auth": "api_key", "apiKey": organization.api_key, "ref": "mine"}
    await add(organization, organization.server.ready["inferenceUrl"] + "/v1", maxConcurrency=100, **here)
    answer = await call(organization, "POST", path, body_of(path, "x", stream=stream))
    assert refusal(answer, path) == (502, "api_error", "upstream_error")


async def test_a_server_learns_that_a_request_comes_through_the_cloud(
    organization: Organization, server_behind: ModelServer
) -> None:
    for before in ({}, {"Via": "1.1 proxy"}):
        sent = {"x-api-key": organization.api_key, **before}
        await call(organization, "POST", CHAT, body_of(CHAT, "x"), headers=sent)
    told = [headers["via"] for headers, _ in server_behind.received]
    assert told == ["1.1 relay-localcloud", "1.1 proxy, 1.1 relay-localcloud"]


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_its_stream_is_passed_on_event_by_event(organization: Organization, far: Server, path: str) -> None:
    await add_far(organization, far)
    body = body_of(path, "hello big world", stream=True)
    passed_on = (await call(organization, "POST", path, body)).raw
    told = (await call(far.seeded(), "POST", path, {**body, "model": "echo"})).raw

    def bare(raw: bytes) -> list[Any]:
        told = [(name, data) for name, data in events(raw) if data != "[DONE]"]
        for _, data in told:
            for shown in (data, data.get("message", {})):
                for name in ("id", "created", "model"):
                    shown.pop(name, None)
        return told

    assert b'"model":"mine"' in passed_on
    assert bare(passed_on) == bare(told)
    assert passed_on.endswith(b"data: [DONE]\n\n" if path == CHAT else b'data: {"type":"message_stop"}\n\n')


async def test_the_usage_of_a_stream_is_passed_on_where_it_is_asked_for(
    organization: Organization, far: Server
) -> None:
    await add_far(organization, far)
    plain = (await call(organization, "POST", CHAT, body_of(CHAT, "a b", stream=True))).raw
    assert b"usage" not in plain
    asked = body_of(CHAT, "a b", stream=True, stream_options={"include_usage": True})
    *_, usage, _ = events((await call(organization, "POST", CHAT, asked)).raw)
    assert usage[1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


async def test_the_usage_of_a_stream_is_counted_where_its_server_tells_none(
    organization: Organization, server_behind: ModelServer
) -> None:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "far"}
    said = [{**chunk, "choices": [{"index": 0, "delta": {"content": word}}]} for word in ("from", " afar")]
    server_behind.body = b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in said)
    server_behind.body += b"data: [DONE]\n\n"
    server_behind.content_type = "text/event-stream"
    plain = (await call(organization, "POST", CHAT, body_of(CHAT, "a b c", stream=True))).raw
    assert b"usage" not in plain
    body = body_of(CHAT, "a b c", stream=True, stream_options={"include_usage": True})
    *_, (_, usage), (_, done) = events((await call(organization, "POST", CHAT, body)).raw)
    counted = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert (usage, done) == ({**chunk, "model": body["model"], "choices": [], "usage": counted}, "[DONE]")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_the_servers_own_usage_is_billed_at_the_models_price(
    organization: Organization, far: Server, path: str, *, stream: bool
) -> None:
    await add_far(organization, far)
    body = body_of(path, "w " * (A_CENT_OF_TOKENS - 1), max_tokens=1, stream=stream)
    assert (await call(organization, "POST", path, body)).status == 200
    assert (await balance(organization))["balanceCents"] == 99_999


async def test_the_server_is_asked_for_its_own_model_with_every_field(
    organization: Organization, server_behind: ModelServer
) -> None:
    body = body_of(CHAT, [{"type": "text", "text": "x", "cache_control": {"a": 1}}], top_k=4, guided_json={"b": [2]})
    answer = await ok(organization, "POST", CHAT, body)
    assert answer["choices"][0]["message"]["content"] == "from afar"
    ((headers, sent),) = server_behind.received
    assert sent == {**body, "model": "echo", "stream": False}
    assert "authorization" not in headers
    assert organization.api_key not in str(headers)


async def test_the_key_of_a_server_is_sent_as_bearer_authorization(
    organization: Organization, server_behind: ModelServer
) -> None:
    await add(organization, server_behind.url, auth="api_key", apiKey="sk-theirs", weight=1)
    await ok(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert server_behind.received[0][0]["authorization"] == "Bearer sk-theirs"


async def test_words_are_counted_where_a_server_tells_no_usage(
    organization: Organization, server_behind: ModelServer
) -> None:
    choice = {"index": 0, "message": {"content": "w " * A_CENT_OF_TOKENS}, "finish_reason": "stop"}
    server_behind.body = json.dumps(completion(choices=[choice])).encode()
    await ok(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert (await balance(organization))["balanceCents"] == 99_999


@pytest.mark.parametrize("auth", ["aws_sigv4", "gcp_oauth"])
async def test_a_style_that_cannot_be_signed_is_502(organization: Organization, auth: str) -> None:
    await add(organization, "http://127.0.0.1:9/v1", auth=auth)
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert refusal(answer) == (502, "api_error", "upstream_error")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("status", "row"),
    [
        (400, (400, "invalid_request_error", None)),
        (413, (413, "invalid_request_error", "payload_too_large")),
        (422, (422, "invalid_request_error", None)),
        (429, (429, "rate_limit_error", "rate_limit_error")),
        (503, (503, "api_error", "upstream_unavailable")),
        (201, (502, "api_error", "upstream_error")),
        (307, (502, "api_error", "upstream_error")),
        (401, (502, "api_error", "upstream_error")),
        (404, (502, "api_error", "upstream_error")),
        (500, (502, "api_error", "upstream_error")),
        (529, (502, "api_error", "upstream_error")),
    ],
)
async def test_a_servers_refusal_is_passed_on_or_502(
    organization: Organization, far: Server, status: int, row: tuple[int, str, str | None], *, stream: bool
) -> None:
    await add_far(organization, far)
    fault = {"operation": f"POST {CHAT}", "effect": {"status": status, "headers": {"Retry-After": "4"}}}
    await far.ok("POST", "/faults", fault)
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x", stream=stream))
    assert refusal(answer) == row
    assert row[0] == 502 or answer.headers["retry-after"] == "4"
    assert (await balance(organization))["balanceCents"] == 100_000


@pytest.mark.parametrize("effect", [{"drop": "before"}, {"truncateBytes": 20}, {"html": True}])
async def test_a_server_that_breaks_is_502(organization: Organization, far: Server, effect: dict[str, Any]) -> None:
    await add_far(organization, far)
    await far.ok("POST", "/faults", {"operation": f"POST {CHAT}", "effect": effect})
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert refusal(answer) == (502, "api_error", "upstream_error")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9/v1", "https://127.0.0.1:9/v1", "http://nowhere.invalid/v1"])
async def test_a_server_that_cannot_be_reached_is_502(organization: Organization, endpoint: str) -> None:
    await add(organization, endpoint)
    for path in (CHAT, MESSAGES):
        answer = await call(organization, "POST", path, body_of(path, "x"))
        assert refusal(answer, path) == (502, "api_error", "upstream_error")


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"<html>",
        b"1",
        b'{"a": NaN}',
        b'{"a": [-1e400]}',
        b"\xff",
        b"{}",
        b'{"error": {"message": "overloaded"}}',
        b'{"choices": null, "content": null}',
    ],
)
async def test_an_answer_that_is_none_is_502(
    organization: Organization, server_behind: ModelServer, path: str, raw: bytes
) -> None:
    server_behind.body = raw
    answer = await call(organization, "POST", path, body_of(path, "x"))
    assert refusal(answer, path) == (502, "api_error", "upstream_error")


async def test_an_answer_of_too_many_values_is_502(organization: Organization, server_behind: ModelServer) -> None:
    server_behind.body = json.dumps(completion(more=[0] * 50_000)).encode()
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert refusal(answer) == (502, "api_error", "upstream_error")


@pytest.mark.parametrize(("more", "ends"), [(10, b"data: [DONE]"), (50_000, b"upstream_error")])
async def test_a_stream_ends_with_an_event_of_too_many_values(
    organization: Organization, server_behind: ModelServer, more: int, ends: bytes
) -> None:
    server_behind.content_type = "text/event-stream"
    event = json.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": "hi"}}], "more": [0] * more})
    server_behind.body = f"data: {event}\r\n\r\ndata: [DONE]\n\n".encode()
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x", stream=True))
    assert ends in answer.raw


@pytest.mark.parametrize("length", [100, 100_000])
async def test_what_a_long_refusal_says_is_not_told(
    organization: Organization, server_behind: ModelServer, length: int
) -> None:
    server_behind.status = 400
    server_behind.body = json.dumps({"error": {"message": "m" * 50}, "pad": "x" * length}).encode()
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x"))
    assert (answer.status, b"mmm" in answer.raw) == (400, length == 100)


@pytest.mark.parametrize(
    "usage", [None, 1, [], {}, {"prompt_tokens": -1, "completion_tokens": 1}, {"prompt_tokens": 10**30}]
)
async def test_an_odd_usage_does_not_keep_the_answer_back(
    organization: Organization, server_behind: ModelServer, usage: object
) -> None:
    server_behind.body = json.dumps(completion(usage=usage)).encode()
    assert (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status == 200


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("effect", [{"cutStreamAfter": 1}, {"truncateBytes": 700}])
async def test_a_stream_that_its_server_cuts_ends_with_an_error_frame_and_is_not_billed(
    organization: Organization, far: Server, path: str, effect: dict[str, Any]
) -> None:
    await add_far(organization, far)
    await far.ok("POST", "/faults", {"operation": f"POST {path}", "effect": effect})
    body = body_of(path, "word " * A_CENT_OF_TOKENS, max_tokens=30, stream=True)
    answer = await call(organization, "POST", path, body)
    assert answer.status == 200
    *_, (name, error), (_, done) = events(answer.raw)
    assert (name, done) == ("error" if path == MESSAGES else None, "[DONE]")
    assert error["error"]["code"] == "upstream_error"
    assert (await balance(organization))["balanceCents"] == 100_000


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_stream_may_end_without_a_blank_line(
    organization: Organization, server_behind: ModelServer, path: str, ending: bytes
) -> None:
    last = b"[DONE]" if path == CHAT else b'{"type":"message_stop"}'
    server_behind.body, server_behind.content_type = b"data: " + last + ending, "text/event-stream"
    answer = await call(organization, "POST", path, body_of(path, "x", stream=True))
    assert answer.raw.endswith(b"data: " + last + b"\n\n")
    assert b"error" not in answer.raw


@pytest.mark.parametrize("raw", [b'data: {"choices"', b"data: [DONE"])
async def test_a_stream_that_ends_within_an_event_is_cut(
    organization: Organization, server_behind: ModelServer, raw: bytes
) -> None:
    server_behind.body, server_behind.content_type = raw, "text/event-stream"
    answer = await call(organization, "POST", CHAT, body_of(CHAT, "x", stream=True))
    assert b"broke off" in answer.raw


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("content_type", ["application/json", "text/html; charset=utf-8"])
async def test_an_answer_in_place_of_a_stream_is_502(
    organization: Organization, server_behind: ModelServer, path: str, content_type: str
) -> None:
    server_behind.body, server_behind.content_type = json.dumps(completion()).encode(), content_type
    answer = await call(organization, "POST", path, body_of(path, "x", stream=True))
    assert refusal(answer, path) == (502, "api_error", "upstream_error")


@pytest.mark.parametrize(
    "raw", [b"", b"data: {}", b"data: 1\n\n", b"data: {\n\n", b'data: {"choices": 5}\n\ndata: [DON\n\n', b"\xff\n\n"]
)
async def test_a_stream_that_is_none_ends_with_an_error_frame(
    organization: Organization, server_behind: ModelServer, raw: bytes
) -> None:
    server_behind.body, server_behind.content_type = raw, "text/event-stream"
    for path in (CHAT, MESSAGES):
        answer = await call(organization, "POST", path, body_of(path, "x", stream=True))
        *_, (_, error), (_, done) = events(answer.raw)
        assert (error["error"]["type"], done) == ("api_error", "[DONE]")


async def test_weight_takes_a_built_in_models_requests_and_the_engine_takes_what_overflows(
    organization: Organization,
) -> None:
    async with ModelServer(hang=asyncio.Event()) as behind:
        assert behind.hang is not None
        await add(organization, behind.url, "echo", weight=1, maxConcurrency=1)
        first = asyncio.create_task(ok(organization, "POST", CHAT, chat("near")))
        await behind.arrived.wait()
        overflown = await ok(organization, "POST", CHAT, chat("near"))
        assert overflown["choices"][0]["message"]["content"] == "near"
        behind.hang.set()
        assert (await first)["choices"][0]["message"]["content"] == "from afar"
        assert (await ok(organization, "POST", CHAT, chat("near")))["choices"][0]["message"]["content"] == "from afar"


async def test_weight_0_leaves_a_built_in_models_requests_to_the_engine(
    organization: Organization,
) -> None:
    await add(organization, "http://127.0.0.1:9/v1", "echo")
    assert (await call(organization, "POST", CHAT, chat("near"))).status == 200


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_all_capacity_in_use_is_503(organization: Organization, path: str) -> None:
    async with ModelServer(hang=asyncio.Event()) as behind:
        assert behind.hang is not None
        await add(organization, behind.url, maxConcurrency=1)
        first = asyncio.create_task(call(organization, "POST", CHAT, body_of(CHAT, "x")))
        await behind.arrived.wait()
        answer = await call(organization, "POST", path, body_of(path, "x"))
        assert refusal(answer, path) == (503, "api_error", "upstream_unavailable")
        behind.hang.set()
        assert (await first).status == 200
        assert (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status == 200


async def test_a_client_that_leaves_a_stream_leaves_its_place_to_the_next_and_pays_for_what_was_sent(
    organization: Organization,
) -> None:
    chunk = b'data: {"choices": [{"index": 0, "delta": {"content": "slow"}, "finish_reason": null}]}\n\n'
    async with ModelServer(body=chunk, content_type="text/event-stream", hang=asyncio.Event()) as behind:
        await add(organization, behind.url, maxConcurrency=1)
        url = organization.server.ready["inferenceUrl"] + CHAT
        body, headers = body_of(CHAT, "w " * A_CENT_OF_TOKENS, stream=True), {"x-api-key": organization.api_key}
        async with aiohttp.ClientSession() as session, session.post(url, json=body, headers=headers) as answer:
            assert b"slow" in await answer.content.readline()
            assert (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status == 503
            answer.close()
        behind.body, behind.hang = None, None

        async def again() -> int:
            return (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status

        await eventually(again, lambda status: status == 200, what="the place of the stream that was left")
    assert (await balance(organization))["balanceCents"] == 99_999


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_leaves_its_place_to_the_next_and_pays_nothing(
    organization: Organization, stream: bool
) -> None:
    async with ModelServer(hang=asyncio.Event()) as behind:
        await add(organization, behind.url, maxConcurrency=1)
        leaving = asyncio.create_task(call(organization, "POST", CHAT, body_of(CHAT, "x", stream=stream)))
        await behind.arrived.wait()
        assert (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status == 503
        leaving.cancel()
        behind.hang = None

        async def again() -> int:
            return (await call(organization, "POST", CHAT, body_of(CHAT, "x"))).status

        await eventually(again, lambda status: status == 200, what="the place of the client that went away")
    days = await organization.ok("GET", "/v1/orgs/{org}/ai/proxy-usage?days=1")
    assert days["totals"]["requests"] == 1


async def test_backends_are_kept_and_their_keys_are_in_no_answer_and_no_log(
    organization: Organization, far: Server
) -> None:
    await add_far(organization, far)
    listed = await organization.call("GET", BACKENDS.format(model="mine"))
    assert far.ready["apiKey"] not in listed.raw.decode()
    assert far.ready["apiKey"] not in organization.server.log
    assert "Traceback" not in organization.server.log
