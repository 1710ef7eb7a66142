"""The error table: what each answer to a create means, and whether money could have been spent."""

import asyncio
import gc
import gzip
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from relay_client import (
    BadRequest,
    CallPolicy,
    CapacityExhausted,
    Cloud,
    CloudError,
    CloudUnavailable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    Outcome,
    Oversized,
    PaymentRequired,
    RateLimited,
    TooLarge,
    Truncated,
    Unauthorized,
    Unreadable,
)
from relay_client.answers import MAX_MEMORY, MAX_VALUES, MAX_VALUES_OF_LARGE, Answer, result_of
from relay_client.operations import (
    ATTACH_SSH_KEY,
    CREATE_POD,
    GET_CLUSTER_DETAIL,
    GET_VM,
    GET_VM_LOGS,
    LIST_VMS,
    TERMINATE_VM,
    UPDATE_MEMBER,
    UPDATE_ORGANIZATION,
)
from relay_client.redaction import MAX_TEXT_CHARS
from relay_client.retry import MAX_BYTES
from relay_wire.orgs import MemberUpdate, OrganizationUpdate
from relay_wire.pods import PodCreate
from relay_wire.ssh_keys import SshKeyAttach
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.conftest import KEY, QUICK
from tests.unit.client.scripted import Drop, Hang, Raw, Reply, ScriptedServer, Step

POD = PodCreate(image="busybox")
REJECTED, UNKNOWN = Outcome.REJECTED, Outcome.UNKNOWN


@dataclass(frozen=True)
class Row:
    says: str
    step: Step
    error: type[CloudError]
    outcome: Outcome
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None


def refusal(status: int, code: str | None = None, **headers: str) -> Reply:
    body = b'{"error":"no"}' if code is None else f'{{"error":"no","code":"{code}"}}'.encode()
    return Reply(status, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


HTML = b"<!doctype html><title>Welcome</title>"
ROWS = [
    Row("malformed", refusal(400), BadRequest, REJECTED, 400),
    Row("retired class", refusal(400, "COMPUTE_CLASS_RETIRED"), BadRequest, REJECTED, 400, "COMPUTE_CLASS_RETIRED"),
    Row("key refused", refusal(401), Unauthorized, REJECTED, 401),
    Row("no funds", refusal(402, "INSUFFICIENT_BALANCE"), PaymentRequired, REJECTED, 402, "INSUFFICIENT_BALANCE"),
    Row("scope lacking", refusal(403), Forbidden, REJECTED, 403),
    Row("absent", refusal(404, "not_found"), NotFound, REJECTED, 404, "not_found"),
    Row("a 404 that is not the cloud's", Reply(404, HTML, content_type="text/html"), Unreadable, REJECTED, 404),
    Row("a 404 without a body", Reply(404), Unreadable, REJECTED, 404),
    Row("a 410 without a body", Reply(410), Unreadable, REJECTED, 410),
    Row("no such operation", Reply(405), NotServed, REJECTED, 405),
    Row("proxy wants credentials", Reply(407, HTML, content_type="text/html"), BadRequest, REJECTED, 407),
    Row("request timed out", Reply(408), CloudUnavailable, UNKNOWN, 408),
    Row("name clash", refusal(409), Conflict, REJECTED, 409),
    Row("node busy", refusal(409, "POD_NODE_BUSY"), Conflict, REJECTED, 409, "POD_NODE_BUSY"),
    Row("gone", refusal(410), Gone, REJECTED, 410),
    Row("body too large", Reply(413), TooLarge, REJECTED, 413),
    Row("meaningless", refusal(422), Invalid, REJECTED, 422),
    Row("rate limited", refusal(429, Retry_After="7"), RateLimited, REJECTED, 429, None, 7.0),
    Row("rate limited by a proxy", Reply(429, HTML, content_type="text/html"), RateLimited, REJECTED, 429),
    Row("server error", refusal(500), CloudUnavailable, UNKNOWN, 500),
    Row("a server error as HTML", Reply(500, HTML, content_type="text/html"), CloudUnavailable, UNKNOWN, 500),
    Row("bad gateway", Reply(502, HTML, content_type="text/html"), CloudUnavailable, UNKNOWN, 502),
    Row("not configured", refusal(503, Retry_After="3"), CloudUnavailable, UNKNOWN, 503, None, 3.0),
    Row("gateway timeout", Reply(504), CloudUnavailable, UNKNOWN, 504),
    Row("an odd status", Reply(599), CloudUnavailable, UNKNOWN, 599),
    Row("moved", Reply(301, headers={"Location": "/elsewhere"}), Unreadable, UNKNOWN, 301),
    Row("see other", Reply(303, headers={"Location": "/v1/vms/pod_1"}), Unreadable, UNKNOWN, 303),
    Row("moved for now", Reply(307, headers={"Location": "https://other.example/v1/pods"}), Unreadable, UNKNOWN, 307),
    Row("accepted, but HTML", Reply(200, HTML, content_type="text/html"), Unreadable, UNKNOWN, 200),
    Row("accepted, but empty", Reply(200), Unreadable, UNKNOWN, 200),
    Row("accepted, but no content", Reply(204, content_type=None), Unreadable, UNKNOWN, 204),
    Row("accepted, but no id", Reply(201, b'{"name":"x"}'), Unreadable, UNKNOWN, 201),
    Row("accepted, but an empty id", Reply(201, b'{"id":""}'), Unreadable, UNKNOWN, 201),
    Row("accepted, but not JSON", Reply(200, b'{"id":"po'), Unreadable, UNKNOWN, 200),
    Row("accepted, but cut", Reply(200, b'{"id":"po', announced=500), Truncated, UNKNOWN, 200),
    Row("accepted, then silence", Reply(200, b'{"id":', announced=500, linger=True), Truncated, UNKNOWN, 200),
    Row("refused, but cut", Reply(409, b'{"err', announced=500), Conflict, REJECTED, 409),
    Row("server error, but cut", Reply(500, b'{"err', announced=500), CloudUnavailable, UNKNOWN, 500),
    Row("head cut", Raw(b"HTTP/1.1 201 Crea"), CloudUnavailable, UNKNOWN),
    Row("not HTTP", Raw(b"SSH-2.0-OpenSSH_9.9\r\n"), CloudUnavailable, UNKNOWN),
    Row("dropped after the request", Drop(), CloudUnavailable, UNKNOWN),
    Row("dropped while it was sent", Drop(unread=True), CloudUnavailable, UNKNOWN),
    Row("no answer in time", Hang(), CloudUnavailable, UNKNOWN),
]
CAPACITY = ["NODE_AT_CAPACITY", "INSUFFICIENT_GPU_CAPACITY", "INSUFFICIENT_CPU_CAPACITY", "INSUFFICIENT_IP_CAPACITY"]
ROWS += [
    Row(f"{code} as {status}", refusal(status, code, Retry_After="30"), CapacityExhausted, REJECTED, status, code, 30.0)
    for code in CAPACITY
    for status in (400, 408, 409, 429, 500, 503)
]


@pytest.mark.parametrize("row", ROWS, ids=[row.says for row in ROWS])
async def test_a_create_that_fails_says_whether_anything_may_exist(row: Row, server: ScriptedServer) -> None:
    server.will(row.step)
    refused = isinstance(row.step, Reply) and row.step.status >= 400
    policy = CallPolicy() if refused else QUICK  # an answer that comes is awaited, however busy the machine is
    async with Cloud(server.url, KEY, policy=policy) as cloud:
        with pytest.raises(CloudError) as caught:
            await cloud.call(CREATE_POD, POD)
    error = caught.value
    assert type(error) is row.error
    assert (error.outcome, error.status, error.code) == (row.outcome, row.status, row.code)
    assert error.retry_after == row.retry_after
    assert error.operation == "create_pod"
    assert error.message
    assert server.connections == 1, "a create was sent again"


async def test_an_accepted_create_is_a_record_whatever_else_the_answer_says(
    cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(Reply(201, b'{"id":"pod_1","gpuCount":"eight","pricePerHourCents":2.5,"status":null,"odd":{}}'))
    pod = await cloud.call(CREATE_POD, POD)
    assert (pod.id, pod.gpu_count, pod.price_per_hour_cents, pod.status) == ("pod_1", None, None, "")


async def test_an_answer_after_an_interim_one_is_the_answer(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Raw(b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 14\r\n\r\n{"id":"pod_1"}'))
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"


async def test_a_create_is_not_sent_on_a_connection_that_the_server_has_closed(
    cloud: Cloud, server: ScriptedServer
) -> None:
    body = b'{"id":"pod_1"}'
    server.will(Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + body), Reply(201, body))
    await cloud.call(GET_VM, id="pod_1")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.ended.wait()
    assert (await cloud.call(CREATE_POD, POD)).id == "pod_1"
    assert server.connections == 2


async def test_a_refusal_that_comes_before_the_body_was_taken_is_read(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Raw(b'HTTP/1.1 413 Too Large\r\nContent-Length: 17\r\n\r\n{"error":"large"}'))
    with pytest.raises(BadRequest, match="large"):
        await cloud.call(CREATE_POD, PodCreate(image="busybox", env_vars={"BIG": "x" * 300_000}))


@pytest.mark.parametrize(
    ("step", "fine"),
    [
        (Reply(204, content_type=None), True),
        (Reply(200), True),
        (Reply(200, b'{"id":"pod_1","status":"terminated"}'), True),
        (Reply(200, b"OK", content_type="text/plain"), True),
        (Reply(200, HTML, content_type="text/html"), False),
        (Reply(200, HTML, content_type=None), False),
        (Reply(200, b'{"id":', content_type="application/json"), False),
        (Reply(200, gzip.compress(HTML), headers={"Content-Encoding": "gzip"}, content_type=None), False),
        (Reply(200, headers={"Content-Encoding": "gzip"}), True),
    ],
)
async def test_a_terminate_is_not_taken_for_done_because_something_answered_200(
    step: Reply, fine: bool, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(step)
    if fine:
        await cloud.call(TERMINATE_VM, id="pod_1")
    else:
        with pytest.raises(Unreadable) as caught:
            await cloud.call(TERMINATE_VM, id="pod_1")
        assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize("step", [Reply(204, content_type=None), Reply(200, b"{}"), Reply(200, b'{"ok":true}')])
async def test_a_change_whose_answer_the_cloud_does_not_describe_is_done_whatever_it_answers(
    step: Reply, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(step, step, step)
    await cloud.call(UPDATE_ORGANIZATION, OrganizationUpdate(name="Acme"), orgId="org_1")
    await cloud.call(UPDATE_MEMBER, MemberUpdate(role="admin"), orgId="org_1", userId="user_1")
    await cloud.call(ATTACH_SSH_KEY, SshKeyAttach(ssh_key_id="key_1"), id="vm_1")


async def test_text_comes_as_it_was_sent_and_a_page_is_none(cloud: Cloud, server: ScriptedServer) -> None:
    text = "<6>[ 0.0] é\x1b[0m\n"
    server.will(Reply(200, text.encode(), content_type="text/plain"), Reply(200, HTML, content_type="text/html"))
    assert await cloud.call(GET_VM_LOGS, id="vm_1") == text
    with pytest.raises(Unreadable, match="the body is HTML"):
        await cloud.call(GET_VM_LOGS, id="vm_1")


async def test_a_packed_body_that_nobody_asked_for_is_said_and_not_shown(cloud: Cloud, server: ScriptedServer) -> None:
    packed = Reply(200, gzip.compress(b"a line of the log"), headers={"Content-Encoding": "gzip"})
    server.will(packed, packed)
    for operation in (GET_VM_LOGS, GET_VM):
        with pytest.raises(Unreadable, match="the body is encoded as gzip, which was not asked for"):
            await cloud.call(operation, id="vm_1")


async def test_a_redirect_is_not_followed_with_the_key(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(302, headers={"Location": "/login?next=secret"}))
    with pytest.raises(Unreadable, match="redirect to /login, which is not followed: check the account's base URL"):
        await cloud.call(GET_VM, id="pod_1")
    assert server.targets == ["GET /v1/vms/pod_1"]


@pytest.mark.parametrize("size", [1000, 1001])
async def test_an_answer_larger_than_allowed_is_given_up(size: int, server: ScriptedServer) -> None:
    body = b'{"id":"pod_1"}'.ljust(size)
    server.will(Reply(200, body))
    policy = QUICK.__class__(max_response_bytes=1000)
    async with Cloud(server.url, KEY, policy=policy) as cloud:
        if size <= 1000:
            assert (await cloud.call(GET_VM, id="pod_1")).id == "pod_1"
        else:
            with pytest.raises(Oversized, match="over 1000 bytes"):
                await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 1


@pytest.mark.parametrize("pieces", [16, 17])
async def test_each_piece_of_a_body_counts_as_more_than_its_bytes(pieces: int, server: ScriptedServer) -> None:
    cut = b"".join(b"1\r\n%c\r\n" % byte for byte in b'{"id":"pod_1"}'.ljust(pieces))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.will(Raw(head + cut + b"0\r\n\r\n"))
    policy = QUICK.__class__(max_response_bytes=15 * 256 + 1)
    async with Cloud(server.url, KEY, policy=policy) as cloud:
        if pieces <= 16:
            assert (await cloud.call(GET_VM, id="pod_1")).id == "pod_1"
        else:
            with pytest.raises(Oversized, match="or too many pieces"):
                await cloud.call(GET_VM, id="pod_1")
    assert len(server.seen) == 1


async def test_an_answer_may_have_many_headers(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":"pod_1"}', {f"X-Header-{number}": "x" * 500 for number in range(60)}))
    assert (await cloud.call(GET_VM, id="pod_1")).id == "pod_1"


@pytest.mark.parametrize(
    "headers",
    [
        {f"X-Header-{number}": "" for number in range(70)},
        {"X-Long": "x" * 9_000},
        {"x" * 9_000: ""},
    ],
    ids=["too many", "a long value", "a long name"],
)
async def test_a_head_beyond_its_bounds_is_no_answer(headers: dict[str, str], server: ScriptedServer) -> None:
    server.will(Reply(201, b'{"id":"pod_1"}', headers))
    async with Cloud(server.url, KEY, policy=QUICK) as cloud:
        with pytest.raises(CloudUnavailable, match="the answer is not HTTP") as failed:
            await cloud.call(CREATE_POD, POD)
    assert failed.value.outcome is Outcome.UNKNOWN
    assert len(server.seen) == 1


async def test_a_body_that_drips_for_ever_ends_with_the_attempt(server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":"pod_1"}'.ljust(2000), drip=0.01))
    async with Cloud(server.url, KEY, policy=QUICK) as cloud:
        with pytest.raises(Truncated, match=r"no complete answer within 0\.5 s"):
            await cloud.call(CREATE_POD, POD)


def test_an_answer_that_lacks_many_fields_is_kept_once_and_not_for_each_of_them() -> None:
    items = MAX_VALUES - 10
    answer = Answer(200, {}, b'{"odd":[' + b",".join([b"0"] * items) + b"]}")
    tracemalloc.start()
    try:
        with pytest.raises(
            Unreadable, match="id: Field required; organizationId: Field required; name: Field required"
        ):
            result_of(GET_CLUSTER_DETAIL, answer)
        assert tracemalloc.get_traced_memory()[1] < 2 * 8 * items
    finally:
        tracemalloc.stop()


def crowd(text: bytes, most: int = MAX_VALUES_OF_LARGE, more: bytes = b"") -> bytes:
    """A list of as many machines as an answer may have values, with a text that nobody reads."""
    return b"{" + more + b'"items":[' + b",".join([b'{"id":"a1"}'] * (most // 2 - 1)) + b'],"x":"' + text + b'"}'


CALLS: dict[str, tuple[Callable[[Cloud], Awaitable[object]], int]] = {
    "a list": (lambda cloud: cloud.call(LIST_VMS, orgId="org_1", large=True), MAX_VALUES_OF_LARGE),
    "no result": (lambda cloud: cloud.call(TERMINATE_VM, id="vm_1"), MAX_VALUES),
    "a create": (lambda cloud: cloud.call(CREATE_POD, POD), MAX_VALUES),
}


@pytest.mark.parametrize(("call", "most"), CALLS.values(), ids=CALLS)
async def test_an_answer_of_too_many_values_is_not_read(
    call: Callable[[Cloud], Awaitable[object]], most: int, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(Reply(200, crowd(b"", most, b'"y":1,')))
    with pytest.raises(Unreadable, match=f"cannot read the answer: it has more than {most} values") as caught:
        await call(cloud)
    assert (type(caught.value), caught.value.outcome) == (Oversized, Outcome.UNKNOWN)
    assert len(server.seen) == 1


async def test_an_answer_of_as_many_values_as_allowed_is_read(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, crowd(b"\\n,[{")))
    page = await cloud.call(LIST_VMS, orgId="org_1", large=True)
    assert len(page.items) == MAX_VALUES_OF_LARGE // 2 - 1


async def test_an_answer_that_is_not_large_has_fewer_values(cloud: Cloud, server: ScriptedServer) -> None:
    few, many = (crowd(b"", MAX_VALUES + more, b'"id":"vm_1",') for more in (-2, 2))
    server.will(Reply(200, few), Reply(200, many))
    assert (await cloud.call(GET_VM, id="vm_1")).id == "vm_1"
    with pytest.raises(Oversized, match=f"it has more than {MAX_VALUES} values"):
        await cloud.call(GET_VM, id="vm_1")


def machines(texts: int, text: bytes) -> Answer:
    one = b'{"id":"vm_1","organizationId":"o","name":"a","status":"running","statusReason":"%s"}' % text
    return Answer(200, {}, b'{"items":[%s]}' % b",".join([one] * texts))


def test_an_answer_that_is_not_large_takes_less_memory() -> None:
    few = MAX_MEMORY // (2 * 4 * MAX_TEXT_CHARS)
    wide, plain = rb"\ud83d\ude00" + b"x" * (MAX_TEXT_CHARS - 1), b"x{," * (MAX_TEXT_CHARS // 3)
    assert len(result_of(LIST_VMS, machines(few, wide)).items) == few
    assert len(result_of(LIST_VMS, machines(3 * few, plain)).items) == 3 * few
    with pytest.raises(Oversized, match="cannot read the answer: it takes more than 8 MiB of memory"):
        result_of(LIST_VMS, machines(3 * few, wide))
    assert len(result_of(LIST_VMS, machines(3 * few, wide), large=True).items) == 3 * few


def test_a_text_that_is_cut_counts_as_what_is_left_of_it() -> None:
    (machine,) = result_of(LIST_VMS, machines(1, rb"\ud83d\ude00" + b"x" * MAX_MEMORY)).items
    assert len(machine.status_reason or "") == MAX_TEXT_CHARS


async def test_an_error_keeps_nothing_of_the_answer(cloud: Cloud, server: ScriptedServer) -> None:
    wrong = b'{"items":[{"id":null,"name":"%s"}]}' % (b"x" * MAX_BYTES)
    server.will(*[Reply(200, wrong)] * 3)
    await failed(cloud)
    gc.collect()
    tracemalloc.start()
    try:
        errors = [await failed(cloud), await failed(cloud)]
        assert tracemalloc.get_traced_memory()[0] < MAX_BYTES
    finally:
        tracemalloc.stop()
    assert [type(error) for error in errors] == [Unreadable, Unreadable]


async def failed(cloud: Cloud) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await cloud.call(LIST_VMS, orgId="org_1", large=True)
    return caught.value


@pytest.mark.parametrize("status", [200, 409])
async def test_an_answer_about_one_thing_may_be_smaller_than_a_list(
    status: int, cloud: Cloud, server: ScriptedServer
) -> None:
    hidden = b'{"id":"vm_1","deployToken":"%s"}'
    fitting, large = (hidden % (b"x" * (MAX_BYTES - len(hidden) + more)) for more in (2, 3))
    server.will(Reply(200, fitting), Reply(200, b'{"items":[%s]}' % large), Reply(200, large), Reply(status, large))
    assert (await cloud.call(GET_VM, id="vm_1")).id == "vm_1"
    assert len((await cloud.call(LIST_VMS, orgId="org_1", large=True)).items) == 1
    with pytest.raises(Oversized, match=f"over {MAX_BYTES} bytes"):
        await cloud.call(GET_VM, id="vm_1")
    with pytest.raises(CloudError, match=f"over {MAX_BYTES} bytes") as caught:
        await cloud.call(CREATE_POD, POD)
    expected = (Oversized, UNKNOWN) if status == 200 else (Conflict, REJECTED)
    assert (type(caught.value), caught.value.outcome) == expected
    assert len(server.targets) == 4


async def test_a_log_may_have_any_number_of_brackets_and_commas(cloud: Cloud, server: ScriptedServer) -> None:
    text = "[{,}]" * MAX_VALUES_OF_LARGE
    server.will(Reply(200, text.encode(), content_type="text/plain"))
    assert await cloud.call(GET_VM_LOGS, id="vm_1") == text


@pytest.mark.parametrize(("status", "kind"), [(404, Unreadable), (409, Conflict), (500, CloudUnavailable)])
@pytest.mark.parametrize("more", ['"error":"no"', '"error":{"message":"no"}'])
async def test_an_error_of_too_many_values_is_known_by_its_status_alone(
    status: int, kind: type[CloudError], more: str, cloud: Cloud, server: ScriptedServer
) -> None:
    server.will(Reply(status, f'{{{more},"code":"NODE_AT_CAPACITY","x":[{"0," * MAX_VALUES}0]}}'.encode()))
    with pytest.raises(CloudError, match=f"HTTP {status} came with more than {MAX_VALUES} values") as caught:
        await cloud.call(CREATE_POD, POD)
    assert (type(caught.value), caught.value.status, caught.value.code) == (kind, status, None)


async def test_an_answer_that_is_no_json_says_where(cloud: Cloud, server: ScriptedServer) -> None:
    server.will(Reply(200, b'{"id":'))
    with pytest.raises(Unreadable, match="body: Invalid JSON: EOF while parsing a value at line 1 column 6"):
        await cloud.call(GET_VM, id="vm_1")
