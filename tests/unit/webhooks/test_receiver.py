"""The webhook receiver, over real connections; signatures are computed here with hashlib and hmac alone."""

import asyncio
import contextlib
import hashlib
import hmac
import json
from collections import OrderedDict, defaultdict
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry

from relay_operator.api.meta import ObjectKey
from relay_operator.http_server import http_server
from relay_operator.observability.metrics import Metrics, WebhookOutcome
from relay_operator.settings import ListenAddress, Settings
from relay_operator.webhooks.receiver import Receiver, account_at, webhook_url
from relay_operator.webhooks.signing_secrets import SigningSecrets
from tests.support.eventually import PATIENCE_SECONDS, eventually

if TYPE_CHECKING:
    from relay_wire.events import Event

pytestmark = pytest.mark.virtual_time

TEAM = ObjectKey("CloudAccount", "team-a", "default")
SHARED = ObjectKey("ClusterCloudAccount", "", "shared")
OLD, CURRENT = "whsec_old-0123456789", "whsec_current-0123456789"
LIMIT = 2_000
HEAD = b"POST /webhooks/team-a/default HTTP/1.1\r\nHost: relay\r\nX-Relay-Signature: x\r\n"
ASKED = b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n"


def _body(**data: str) -> bytes:
    event = {"id": "evt-1", "type": "vm.running", "created_at": "2026-01-01T00:00:00Z", "data": data}
    return json.dumps(event).encode()


def _signature(body: bytes, secret: str = CURRENT) -> str:
    key = hashlib.sha256(secret.encode()).hexdigest().encode()
    return "sha256=" + hmac.new(key, body, hashlib.sha256).hexdigest()


class _Endpoint:
    """A receiver on a real port, what it enqueued, and what it counted."""

    def __init__(self) -> None:
        self.metrics = Metrics(CollectorRegistry())
        self.secrets: dict[ObjectKey, tuple[str, ...]] = {TEAM: (CURRENT, OLD), SHARED: (CURRENT,)}
        self.seen: defaultdict[ObjectKey, OrderedDict[bytes, None]] = defaultdict(OrderedDict)
        self.asked: list[ObjectKey] = []
        self.events: list[tuple[ObjectKey, Event]] = []
        self.address = ListenAddress("127.0.0.1", 0)
        self.receiver = Receiver(
            secrets_for=self._secrets_for,
            seen_by=self.seen.__getitem__,
            on_event=lambda account, event: self.events.append((account, event)),
            on_delivery=self.metrics.on_delivery,
            body_limit=LIMIT,
            deduplication_size=2,
            read_seconds=0.2,
        )

    def _secrets_for(self, account: ObjectKey) -> tuple[str, ...] | None:
        self.asked.append(account)
        return self.secrets.get(account)

    def count(self, outcome: WebhookOutcome) -> float | None:
        return self.metrics.registry.get_sample_value("gpurelay_webhook_deliveries_total", {"outcome": outcome})

    async def deliver(
        self,
        body: bytes | AsyncIterator[bytes],
        signature: str | None,
        delivery: str | None = "d-1",
        path: str = "/webhooks/team-a/default",
        **headers: str,
    ) -> int:
        if signature is not None:
            headers["X-Relay-Signature"] = signature
        if delivery is not None:
            headers["X-Relay-Delivery"] = delivery
        url = f"http://{self.address}{path}"
        async with ClientSession() as session, session.post(url, data=body, headers=headers) as answer:
            return answer.status

    async def raw(self, request: bytes) -> bytes:
        """The first line answered to literal bytes."""
        reader, writer = await asyncio.open_connection(*self.address)
        writer.write(request)
        await writer.drain()
        line = await asyncio.wait_for(reader.readline(), PATIENCE_SECONDS)
        writer.close()
        return line


@pytest.fixture
async def endpoint() -> AsyncIterator[_Endpoint]:
    endpoint = _Endpoint()
    async with http_server(endpoint.receiver.app(), endpoint.address) as address:
        endpoint.address = address
        yield endpoint


async def test_a_signed_event_is_handed_over_once_and_answered_2xx(endpoint: _Endpoint) -> None:
    body = _body(vmId="vm-1")
    assert await endpoint.deliver(body, _signature(body)) == 204
    ((account, event),) = endpoint.events
    assert account == TEAM
    assert (event.type, event.resource_id) == ("vm.running", "vm-1")
    assert endpoint.count(WebhookOutcome.ACCEPTED) == 1


async def test_a_cluster_wide_account_has_its_own_segment(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body), path="/webhooks/_cluster/shared") == 204
    assert endpoint.events[0][0] == SHARED


async def test_the_former_secret_is_accepted_as_long_as_it_is_named(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body, OLD)) == 204
    endpoint.secrets[TEAM] = (CURRENT,)
    assert await endpoint.deliver(body, _signature(body, OLD), "d-2") == 401


@pytest.mark.parametrize(
    "signature",
    [
        None,
        "",
        "sha256=",
        "sha256=" + "0" * 64,
        _signature(_body(), "whsec_of-somebody-else"),
        _signature(_body()).upper(),
        _signature(_body()).removeprefix("sha256="),
        _signature(_body() + b" "),
    ],
)
async def test_a_wrong_signature_has_no_effect(endpoint: _Endpoint, signature: str | None) -> None:
    assert await endpoint.deliver(_body(), signature) == 401
    assert endpoint.events == []
    assert endpoint.count(WebhookOutcome.BAD_SIGNATURE) == 1


async def test_a_signature_of_bytes_that_are_no_text_is_refused_like_any_other(endpoint: _Endpoint) -> None:
    body = _body()
    head = b"POST /webhooks/team-a/default HTTP/1.1\r\nHost: relay\r\nX-Relay-Signature: sha256=\xff\xfe\r\n"
    answer = await endpoint.raw(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert b" 401 " in answer


async def test_a_forged_delivery_does_not_shadow_the_true_one(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, "sha256=" + "0" * 64, "d-7") == 401
    assert await endpoint.deliver(body, _signature(body), "d-7") == 204
    assert len(endpoint.events) == 1


async def test_a_repeated_delivery_is_answered_2xx_and_not_handed_over_again(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body)) == 204
    assert await endpoint.deliver(body, _signature(body)) == 204
    assert len(endpoint.events) == 1
    assert endpoint.count(WebhookOutcome.DUPLICATE) == 1


async def test_the_same_delivery_id_of_another_account_is_another_delivery(endpoint: _Endpoint) -> None:
    body = _body()
    await endpoint.deliver(body, _signature(body))
    await endpoint.deliver(body, _signature(body), path="/webhooks/_cluster/shared")
    assert [account for account, _ in endpoint.events] == [TEAM, SHARED]


async def test_the_memory_of_deliveries_is_bounded_and_forgets_the_oldest(endpoint: _Endpoint) -> None:
    body = _body()
    for delivery in ("d-1", "d-2", "d-1", "d-3", "d-1", "d-2"):
        await endpoint.deliver(body, _signature(body), delivery)
    assert len(endpoint.events) == 4  # d-1, d-2, d-3, and d-2 again: d-1 was seen more recently
    assert endpoint.count(WebhookOutcome.DUPLICATE) == 2


async def test_a_repeated_delivery_is_recognized_without_decoding_its_body(endpoint: _Endpoint) -> None:
    body, other = _body(), b"not json"
    assert await endpoint.deliver(body, _signature(body)) == 204
    assert await endpoint.deliver(other, _signature(other)) == 204
    assert endpoint.count(WebhookOutcome.DUPLICATE) == 1
    assert await endpoint.deliver(other, _signature(other, "whsec_of-somebody-else")) == 401


@pytest.mark.parametrize("delivery", ["d", "d" * 4_000])
async def test_what_is_remembered_of_a_delivery_is_as_long_for_every_id(endpoint: _Endpoint, delivery: str) -> None:
    body = _body()
    for ending in ("-1", "-2", "-1"):
        assert await endpoint.deliver(body, _signature(body), delivery + ending) == 204
    assert len(endpoint.events) == 2
    assert [len(digest) for digest in endpoint.seen[TEAM]] == [16, 16]


async def test_what_is_remembered_of_an_account_s_deliveries_goes_with_its_secret(endpoint: _Endpoint) -> None:
    secrets, body = SigningSecrets(60, lambda: 0.0), _body()
    endpoint.receiver.secrets_for, endpoint.receiver.seen_by = secrets.of, secrets.seen
    secrets.put(TEAM, OLD)
    await endpoint.deliver(body, _signature(body, OLD))
    secrets.put(TEAM, CURRENT)
    await endpoint.deliver(body, _signature(body))
    assert len(endpoint.events) == 1  # a roll leaves it
    secrets.drop(TEAM)
    secrets.put(TEAM, CURRENT)
    await endpoint.deliver(body, _signature(body))
    assert len(endpoint.events) == 2


async def test_deliveries_without_an_id_are_never_taken_for_duplicates(endpoint: _Endpoint) -> None:
    body = _body()
    for _ in range(2):
        assert await endpoint.deliver(body, _signature(body), None) == 204
    assert len(endpoint.events) == 2


@pytest.mark.parametrize("path", ["/webhooks/team-b/default", "/webhooks/_cluster/default", "/webhooks/team-a/other"])
async def test_a_delivery_for_an_unknown_account_is_refused(endpoint: _Endpoint, path: str) -> None:
    assert await endpoint.deliver(_body(), _signature(_body()), path=path) == 401
    assert endpoint.count(WebhookOutcome.UNKNOWN_ACCOUNT) == 1


@pytest.mark.parametrize("header", ["", "X-Relay-Signature: a\r\nX-Relay-Signature: b\r\n"], ids=["none", "two"])
async def test_what_no_body_could_make_good_is_refused_before_the_body_is_read(
    endpoint: _Endpoint, header: str
) -> None:
    head = f"POST /webhooks/team-a/default HTTP/1.1\r\nHost: relay\r\nContent-Length: 1000\r\n{header}\r\n"
    assert b" 401 " in await endpoint.raw(head.encode())
    assert endpoint.count(WebhookOutcome.BAD_SIGNATURE) == 1


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"Content-Length: 2\r\n\r\n{}", b"401"),
        (b"Content-Length: 2\r\nX-Relay-Signature: y\r\n\r\n{}", b"401"),
        (b"Content-Length: 2\r\nContent-Encoding: gzip\r\n\r\n{}", b"400"),
        (b"Content-Length: 2\r\n\r\n{", b"400"),
        (b"Content-Length: %d\r\n\r\n" % (LIMIT + 1), b"413"),
        (b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1), b"413"),
    ],
    ids=["wrong", "two signatures", "packed", "never whole", "large", "large in chunks"],
)
async def test_a_stranger_cannot_tell_whether_there_is_an_account(
    endpoint: _Endpoint, rest: bytes, status: bytes
) -> None:
    known = await endpoint.raw(HEAD + rest)
    unknown = await endpoint.raw(HEAD.replace(b"/default", b"/nobodys") + rest)
    assert known == unknown
    assert b" " + status + b" " in known


async def test_unproven_bodies_have_a_bound_all_together_and_it_is_given_back(
    endpoint: _Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_operator.webhooks.receiver._UNPROVEN_BYTES", 1_000)
    endpoint.receiver.read_seconds = 5
    held = await asyncio.open_connection(*endpoint.address)
    head = (
        b"POST /webhooks/team-a/default HTTP/1.1\r\nHost: relay\r\nX-Relay-Signature: x\r\nContent-Length: 1900\r\n\r\n"
    )
    held[1].write(head + b"x" * 900)
    await held[1].drain()

    async def read() -> int:
        return endpoint.receiver._unproven

    await eventually(read, lambda seen: seen == 900, every=0.01)
    assert b" 503 " in await endpoint.raw(head + b"x" * 900)
    assert endpoint.count(WebhookOutcome.BUSY) == 1
    held[1].close()
    await eventually(read, lambda seen: seen == 0, every=0.01)
    body = _body()
    assert await endpoint.deliver(body, _signature(body)) == 204


async def test_bodies_that_are_held_back_on_all_connections_but_one_keep_out_no_delivery(endpoint: _Endpoint) -> None:
    endpoint.receiver.body_limit = most = Settings().webhook_body_limit_bytes
    endpoint.receiver.read_seconds = 60
    held = [await asyncio.open_connection(*endpoint.address) for _ in range(255)]
    for _, writer in held:
        writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % most + b"x" * (most - 1))

    async def read() -> int:
        await asyncio.gather(*(writer.drain() for _, writer in held))
        return endpoint.receiver._unproven

    await eventually(read, lambda seen: seen == len(held) * (most - 1), every=0.01)
    body = _body()
    assert await endpoint.deliver(body, _signature(body)) == 204
    for _, writer in held:
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"POST /webhooks/team-a/default HTT"], ids=["nothing", "half a head"])
async def test_a_connection_that_asks_for_nothing_is_closed(sent: bytes) -> None:
    async with http_server(_Endpoint().receiver.app(), ListenAddress("127.0.0.1", 0), idle_seconds=0.1) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
        writer.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_checks_of_load_balancers_are_told_that_it_is_here_and_nothing_else(
    endpoint: _Endpoint, method: str
) -> None:
    async with ClientSession() as session, session.request(method, f"http://{endpoint.address}/") as answer:
        assert (answer.status, await answer.read()) == (200, b"")
    assert endpoint.asked == []
    assert [endpoint.count(outcome) for outcome in WebhookOutcome if endpoint.count(outcome)] == []


@pytest.mark.parametrize(
    ("asked", "status"),
    [(b"GET /webhooks/team-a/default", b"405"), (b"POST /", b"405"), (b"GET /healthz", b"404"), (b"GET //", b"404")],
)
async def test_nothing_else_is_answered(endpoint: _Endpoint, asked: bytes, status: bytes) -> None:
    assert b" " + status + b" " in await endpoint.raw(asked + b" HTTP/1.1\r\nHost: relay\r\n\r\n")


@pytest.mark.parametrize("then", [b"", b"POST /webhooks/team-a/default HTT"], ids=["nothing", "half a head"])
async def test_a_connection_that_asks_for_nothing_more_is_closed(then: bytes) -> None:
    async with http_server(_Endpoint().receiver.app(), ListenAddress("127.0.0.1", 0), idle_seconds=0.1) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n" + then)
        answer = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
        assert answer.startswith(b"HTTP/1.1 200 ")
        writer.close()


async def _ask(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bytes:
    """Ask as a health check does; returns the answer, empty if the connection is closed."""
    reader, writer = connection
    writer.write(ASKED)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
        return await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE_SECONDS)
    return b""


async def test_a_new_connection_gets_in_and_the_one_that_has_asked_for_nothing_longest_makes_room() -> None:
    endpoint = _Endpoint()
    listen, body = ListenAddress("127.0.0.1", 0), _body()
    async with http_server(endpoint.receiver.app(), listen, max_connections=3, idle_seconds=60) as address:
        endpoint.address = address
        first, second, third = [await asyncio.open_connection(*address) for _ in range(3)]
        for connection in (first, second, third, first):
            assert await _ask(connection)
        assert await endpoint.deliver(body, _signature(body)) == 204
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(second[0].read(), PATIENCE_SECONDS) == b""
        assert await _ask(third)
        assert await _ask(first)
        for _, writer in (first, second, third):
            writer.close()


@pytest.mark.parametrize("sent", [b"", HEAD + b"Content-Length: 9\r\n\r\n{"], ids=["silent", "slow bodies"])
async def test_those_who_hold_all_connections_keep_nobody_out(sent: bytes) -> None:
    endpoint = _Endpoint()
    endpoint.receiver.read_seconds = 60
    listen, body = ListenAddress("127.0.0.1", 0), _body()
    async with http_server(endpoint.receiver.app(), listen, max_connections=3, idle_seconds=60) as address:
        endpoint.address = address
        held = [await asyncio.open_connection(*address) for _ in range(12)]
        for _, writer in held:
            writer.write(sent)
        for number in range(6):
            assert await endpoint.deliver(body, _signature(body), f"d-{number}") == 204
        for _, writer in held:
            writer.close()


async def test_a_connection_that_asks_ahead_of_its_answers_is_closed(endpoint: _Endpoint) -> None:
    reader, writer = await asyncio.open_connection(*endpoint.address)
    writer.write(ASKED * 32)
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b""
    writer.close()


async def test_a_connection_that_does_not_read_its_answer_is_closed() -> None:
    ended = asyncio.Event()

    async def long_page(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        try:
            while True:
                await answer.write(b"x" * 1024 * 1024)
        finally:
            ended.set()

    app = web.Application()
    app.router.add_get("/", long_page)
    async with http_server(app, ListenAddress("127.0.0.1", 0), answer_seconds=5) as address:
        _, writer = await asyncio.open_connection(*address, limit=1)
        writer.write(ASKED)
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
        writer.close()


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({f"X-Of-A-Proxy-{number}": "x" * 100 for number in range(36)}, 204),
        ({"X-Forwarded-Client-Cert": "x" * 4_000}, 204),
        ({f"X-Of-A-Proxy-{number}": "" for number in range(48)}, 400),
        ({"X-Long": "x" * 4_100}, 400),
        ({"x" * 4_100: ""}, 400),
    ],
    ids=["of many proxies", "a certificate", "too many", "a long value", "a long name"],
)
async def test_a_head_has_a_bound(endpoint: _Endpoint, more: dict[str, str], status: int) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body), **more) == status


async def test_the_line_of_a_request_has_a_bound(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body), path=f"/webhooks/team-a/{'x' * 4_100}") == 400


async def test_a_body_that_announces_too_much_is_refused_before_it_is_read(endpoint: _Endpoint) -> None:
    head = HEAD + b"Content-Length: %d\r\n\r\n" % (LIMIT + 1)
    assert b" 413 " in await endpoint.raw(head)
    assert endpoint.count(WebhookOutcome.TOO_LARGE) == 1


async def test_a_body_without_a_length_is_refused_once_it_is_too_large(endpoint: _Endpoint) -> None:
    head = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
    assert b" 413 " in await endpoint.raw(head + b"%x\r\n" % (LIMIT + 1) + b"x" * (LIMIT + 1) + b"\r\n")


async def test_a_body_of_exactly_the_limit_is_taken(endpoint: _Endpoint) -> None:
    body = _body() + b" " * (LIMIT - len(_body()))
    assert await endpoint.deliver(body, _signature(body)) == 204


async def test_a_body_that_never_ends_is_given_up(endpoint: _Endpoint) -> None:
    head = HEAD + b"Content-Length: 100\r\n\r\n{"
    assert b" 400 " in await endpoint.raw(head)


async def test_a_packed_body_is_refused_since_its_raw_bytes_are_not_seen(endpoint: _Endpoint) -> None:
    body = _body()
    assert await endpoint.deliver(body, _signature(body), **{"Content-Encoding": "gzip"}) == 400
    assert endpoint.events == []


@pytest.mark.parametrize("body", [b"", b"[]", b"not json", b'{"id": "evt-1"}', b"\xff\xfe"])
async def test_a_signed_body_that_is_no_event_is_refused(endpoint: _Endpoint, body: bytes) -> None:
    assert await endpoint.deliver(body, _signature(body)) == 400
    assert endpoint.events == []
    assert endpoint.count(WebhookOutcome.MALFORMED) == 1


@pytest.mark.parametrize(("values", "status"), [(19_997, 204), (19_998, 400)])
async def test_a_signed_body_of_too_many_values_is_refused(endpoint: _Endpoint, values: int, status: int) -> None:
    endpoint.receiver.body_limit = 1024 * 1024
    body = json.dumps({"id": "evt-1", "type": "vm.running", "data": [0] * values}).encode()  # 3 values more
    assert await endpoint.deliver(body, _signature(body)) == status
    assert len(endpoint.events) == (status == 204)
    assert endpoint.count(WebhookOutcome.MALFORMED) == (status == 400)


async def test_every_delivery_is_counted_exactly_once(endpoint: _Endpoint) -> None:
    body = _body()
    await endpoint.deliver(body, _signature(body))
    await endpoint.deliver(body, None)
    await endpoint.deliver(body, None, path="/webhooks/nobody/home")
    assert sum(endpoint.count(outcome) or 0 for outcome in WebhookOutcome) == 3


@pytest.mark.parametrize("account", [TEAM, SHARED])
def test_the_url_given_to_the_cloud_leads_back_to_the_account(account: ObjectKey) -> None:
    url = webhook_url("https://relay.example.com/", account)
    assert url.startswith("https://relay.example.com/webhooks/")
    assert account_at(*url.split("/")[-2:]) == account


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_every_address_is_that_of_both_families(host: str) -> None:
    """Pods of some clusters have IPv6 addresses only."""
    endpoint, body = _Endpoint(), _body()
    async with http_server(endpoint.receiver.app(), ListenAddress("::", 0)) as address:
        endpoint.address = ListenAddress(host, address.port)
        assert await endpoint.deliver(body, _signature(body)) == 204


async def test_a_system_without_ipv6_listens_on_ipv4_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.has_dualstack_ipv6", lambda: False)
    endpoint, body = _Endpoint(), _body()
    async with http_server(endpoint.receiver.app(), ListenAddress("::", 0)) as address:
        endpoint.address = ListenAddress("127.0.0.1", address.port)
        assert await endpoint.deliver(body, _signature(body)) == 204
