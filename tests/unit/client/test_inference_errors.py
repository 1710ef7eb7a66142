"""The error table of the inference API: section 7, and what it means for a batch that costs money."""

import json
from dataclasses import dataclass

import pytest

from relay_client import (
    BadRequest,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Outcome,
    PaymentRequired,
    RateLimited,
    RateLimiter,
    TooLarge,
    Unauthorized,
    Unreadable,
)
from relay_client.operations import (
    CANCEL_BATCH,
    CREATE_BATCH,
    DELETE_FILE,
    GET_BATCH,
    GET_VM,
    LIST_BATCHES,
    LIST_FILES,
    WHOAMI,
)
from relay_wire.batches import BatchCreate
from tests.unit.client.conftest import KEY, QUICK, Timeline
from tests.unit.client.scripted import Drop, Reply, ScriptedServer, Step

BATCH = BatchCreate(input_file_id="file_1", endpoint="/v1/chat/completions")
ACCEPTED = b'{"id":"batch_1","object":"batch","status":"validating"}'
REJECTED, UNKNOWN = Outcome.REJECTED, Outcome.UNKNOWN


@dataclass(frozen=True)
class Row:
    status: int
    error_type: str
    code: str | None
    error: type[CloudError]
    outcome: Outcome = REJECTED


ROWS = [
    Row(400, "invalid_request_error", None, BadRequest),
    Row(400, "invalid_request_error", "unsupported_api", BadRequest),
    Row(401, "authentication_error", "missing_api_key", Unauthorized),
    Row(401, "authentication_error", "invalid_api_key", Unauthorized),
    Row(401, "authentication_error", "revoked_api_key", Unauthorized),
    Row(401, "authentication_error", "expired_api_key", Unauthorized),
    Row(402, "insufficient_quota", "insufficient_balance", PaymentRequired),
    Row(403, "permission_error", "account_suspended", Forbidden),
    Row(403, "permission_error", "account_unavailable", Forbidden),
    Row(404, "not_found_error", "model_not_found", NotFound),
    Row(404, "not_found_error", None, NotFound),
    Row(409, "conflict_error", None, Conflict),
    Row(413, "invalid_request_error", "payload_too_large", TooLarge),
    Row(422, "invalid_request_error", None, Invalid),
    Row(429, "rate_limit_error", "rate_limit_error", RateLimited),
    Row(500, "api_error", None, CloudUnavailable, UNKNOWN),
    Row(502, "api_error", "upstream_error", CloudUnavailable, UNKNOWN),
    Row(503, "api_error", "upstream_unavailable", CloudUnavailable, UNKNOWN),
]


def inference(server: ScriptedServer, limiter: RateLimiter | None = None) -> Cloud:
    timeline = Timeline()
    return Cloud(
        "http://management.invalid",
        KEY,
        inference_url=server.url,
        policy=QUICK,
        limiter=limiter,
        runtime=timeline.runtime(),
    )


async def failed_create(server: ScriptedServer, step: Step) -> CloudError:
    server.will(step)
    async with inference(server) as cloud:
        with pytest.raises(CloudError) as caught:
            await cloud.call(CREATE_BATCH, BATCH)
    assert len(server.seen) <= 1, "a create was sent again"
    return caught.value


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.status} {row.code}")
async def test_a_batch_that_is_not_created_says_why_and_whether_it_may_exist(row: Row, server: ScriptedServer) -> None:
    body = {"error": {"message": "it is so", "type": row.error_type, "code": row.code}}
    error = await failed_create(server, Reply(row.status, json.dumps(body).encode(), {"Retry-After": "2"}))
    assert type(error) is row.error
    assert (error.status, error.error_type, error.code) == (row.status, row.error_type, row.code)
    assert (error.message, error.outcome, error.retry_after) == ("it is so", row.outcome, 2.0)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b'"no"', b'{"error":null}', b'{"error":{}}', b'{"error":[]}', b"{"],
)
async def test_an_absence_that_the_cloud_does_not_tell_itself_is_not_believed(
    body: bytes, server: ScriptedServer
) -> None:
    error = await failed_create(server, Reply(404, body))
    assert (type(error), error.outcome, error.status) == (Unreadable, REJECTED, 404)


@pytest.mark.parametrize(
    ("body", "message", "code"),
    [
        (b'{"error":"no","code":"not_found"}', "no", "not_found"),
        (b'{"error":{"message":"no","type":7,"code":"x"},"more":1}', "no", "x"),
        (b'{"type":"error","error":{"message":"no","type":"not_found_error"}}', "no", None),
        (b'{"error":{"message":null,"code":"x"}}', "HTTP 404 came without an error text of the cloud", "x"),
    ],
)
async def test_an_error_body_is_read_as_far_as_it_goes(
    body: bytes, message: str, code: str | None, server: ScriptedServer
) -> None:
    error = await failed_create(server, Reply(404, body))
    assert type(error) is NotFound
    assert error.message.startswith(message)
    assert error.code == code


async def test_the_management_api_does_not_speak_in_the_inference_apis_errors(server: ScriptedServer) -> None:
    server.will(Reply(404, b'{"error":{"message":"no","type":"not_found_error","code":null}}'))
    async with Cloud(server.url, KEY, policy=QUICK) as cloud:
        with pytest.raises(Unreadable):
            await cloud.call(GET_VM, id="pod_1")


@pytest.mark.parametrize("step", [Drop(), Reply(200, b"{}"), Reply(200, ACCEPTED[:9], announced=90), Reply(303)])
async def test_a_batch_whose_answer_is_lost_may_exist(step: Step, server: ScriptedServer) -> None:
    assert (await failed_create(server, step)).outcome is UNKNOWN


@pytest.mark.parametrize("step", [Drop(), *map(Reply, (408, 429, 500, 502, 503, 504))], ids=repr)
async def test_of_all_statuses_only_429_502_and_503_are_retried(step: Step, server: ScriptedServer) -> None:
    server.will(step)
    async with inference(server) as cloud:
        with pytest.raises((CloudUnavailable, RateLimited)):
            await cloud.call(GET_BATCH, id="batch_1")
        first = len(server.seen)
        with pytest.raises((CloudUnavailable, RateLimited)):
            async with cloud.download("file_1"):
                pass
    retried = not isinstance(step, Reply) or step.status in {429, 502, 503}
    assert (first > 1, len(server.seen) - first > 1) == (retried, retried)


async def test_a_long_text_is_cut_and_the_key_is_masked(server: ScriptedServer) -> None:
    body = {"error": {"message": f"{KEY}\n" + "x" * 9000, "type": "t" * 9000, "code": f"c{KEY}"}}
    error = await failed_create(server, Reply(400, json.dumps(body).encode()))
    assert KEY not in f"{error!r} {error} {error.code} {error.error_type}"
    assert "\n" not in error.message
    assert max(len(error.message), len(error.error_type or "")) <= 500


async def test_a_cancellation_may_use_the_reserved_share_of_the_rate(server: ScriptedServer) -> None:
    server.will(Reply(200, ACCEPTED))
    limiter = RateLimiter(0.001, burst=2, reserved_share=0.5, max_wait_seconds=0)
    async with inference(server, limiter) as cloud:
        await cloud.call(GET_BATCH, id="batch_1")
        with pytest.raises(RateLimited):
            await cloud.call(GET_BATCH, id="batch_1")
        await cloud.call(CANCEL_BATCH, id="batch_1")
    assert server.targets[-1] == "POST /v1/batches/batch_1/cancel"


async def test_calls_go_where_their_api_is(server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":"x","data":[],"has_more":false}'))
    async with Cloud(f"{server.url}/management", KEY, inference_url=f"{server.url}/inference/") as cloud:
        await cloud.call(GET_VM, id="x")
        await cloud.call(LIST_FILES)
        await cloud.call(DELETE_FILE, id="x")
    assert server.targets == [
        "GET /management/v1/vms/x",
        "GET /inference/v1/files",
        "DELETE /inference/v1/files/x",
    ]


@pytest.mark.parametrize("url", ["inference.example.com", "https://u:p@host", "https://h/?a=b", "http://h:0", ""])
def test_an_inference_url_that_calls_cannot_be_made_below_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the inference URL must"):
        Cloud("https://api.example.com", KEY, inference_url=url)


async def test_a_batch_is_sent_as_it_was_meant(server: ScriptedServer) -> None:
    server.will(Reply(200, ACCEPTED))
    async with inference(server) as cloud:
        made = await cloud.call(CREATE_BATCH, BATCH.model_copy(update={"metadata": {"intent": "t"}}))
    assert (made.id, made.status, made.request_counts.total) == ("batch_1", "validating", 0)
    assert json.loads(server.seen[0].body) == {
        "input_file_id": "file_1",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
        "metadata": {"intent": "t"},
    }


async def test_a_record_in_a_batch_keeps_its_nulls_and_names(server: ScriptedServer) -> None:
    record = {"custom_id": "1", "body": {"max_tokens": None, "camelCase": 1, "relay": {"tool_config": {"a_b": None}}}}
    server.will(Reply(200, ACCEPTED))
    async with inference(server) as cloud:
        await cloud.call(CREATE_BATCH, BatchCreate(requests=[record], endpoint="/v1/messages"))
    assert json.loads(server.seen[0].body)["requests"] == [record]


async def test_a_key_that_only_the_inference_url_refuses_is_used_for_all_else(server: ScriptedServer) -> None:
    async with Cloud(server.url, KEY, inference_url=f"{server.url}/inference", policy=QUICK) as cloud:
        server.will(
            Reply(401, b"{}"),
            Reply(body=b'{"principalType":"api_key","organizationId":"org-1","scopes":[]}'),
        )
        with pytest.raises(Unauthorized):
            await cloud.call(LIST_BATCHES)
        assert (await cloud.call(WHOAMI)).organization_id == "org-1"
        with pytest.raises(CircuitOpen):
            await cloud.call(LIST_BATCHES)
