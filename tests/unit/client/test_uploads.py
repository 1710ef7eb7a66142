"""Uploads: streamed with bounded memory, sent once, and honest about what became of them."""

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from relay_client import (
    CallPolicy,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    ConnectionPool,
    NoInferenceUrl,
    Outcome,
    PaymentRequired,
    RateLimited,
    RateLimiter,
    SourceStalled,
    TooLarge,
    Truncated,
    Unauthorized,
    Unreadable,
)
from relay_client.operations import LIST_FILES, UPLOAD_FILE
from relay_client.uploads import FileForm
from tests.support.certificates import write_serving_certificate
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Drop, Early, Hang, Raw, Reply, ScriptedServer, Step, scripted_server

STORED = Reply(200, b'{"id":"file_1","object":"file","bytes":6,"filename":"a.jsonl","purpose":"batch"}')
MIB = 1024 * 1024
PATIENT = CallPolicy(idle_seconds=5, total_seconds=5)
IMPATIENT = CallPolicy(idle_seconds=0.3, total_seconds=0.3)


class Source:
    """`count` chunks of `size` bytes; `taken` says how many were asked for."""

    def __init__(self, count: int, size: int = MIB) -> None:
        self._count = count
        self._chunk = b"x" * size
        self.taken = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.taken == self._count:
            raise StopAsyncIteration
        self.taken += 1
        return self._chunk


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


def inference(server: ScriptedServer, policy: CallPolicy = PATIENT, limiter: RateLimiter | None = None) -> Cloud:
    return Cloud("http://management.invalid", KEY, inference_url=server.url, policy=policy, limiter=limiter)


async def failed_upload(cloud: Cloud, source: AsyncIterator[bytes]) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await cloud.upload("a.jsonl", source)
    return caught.value


async def test_a_file_is_a_form_with_a_purpose(server: ScriptedServer) -> None:
    server.will(STORED)
    async with inference(server) as cloud:
        stored = await cloud.upload('a"b\r\n.jsonl', chunks(b"one", b"", b"two"))
    assert (stored.id, stored.bytes) == ("file_1", 6)
    (seen,) = server.seen
    assert (seen.method, seen.target) == ("POST", "/v1/files")
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert seen.headers["transfer-encoding"] == "chunked"
    kind, _, boundary = seen.headers["content-type"].partition("; boundary=")
    assert kind == "multipart/form-data"
    assert seen.body.decode() == (
        f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="a%22b%0D%0A.jsonl"\r\n'
        f"Content-Type: application/jsonl\r\n\r\nonetwo\r\n--{boundary}--\r\n"
    )


async def test_an_empty_source_is_an_empty_file(server: ScriptedServer) -> None:
    server.will(STORED)
    async with inference(server) as cloud:
        await cloud.upload("a.jsonl", chunks())
    assert b"application/jsonl\r\n\r\n\r\n--" in server.seen[0].body


async def test_a_chunk_of_any_size_is_sent_in_small_pieces() -> None:
    form = FileForm("a.jsonl", boundary="b")
    pieces = [piece async for piece in form.around(chunks(b"x" * MIB, b"", b"y" * 3))]
    assert max(len(piece) for piece in pieces) == 64 * 1024
    assert min(len(piece) for piece in pieces) == 3
    assert b"".join(pieces[1:-1]) == b"x" * MIB + b"yyy"


async def test_two_forms_have_different_boundaries() -> None:
    assert FileForm("a").content_type != FileForm("a").content_type


async def test_a_file_without_a_name_is_refused(server: ScriptedServer) -> None:
    async with inference(server) as cloud:
        with pytest.raises(ValueError, match="cannot be uploaded without a filename"):
            await cloud.upload("", chunks())
    assert server.seen == []


async def test_a_connection_is_used_again_after_an_upload(server: ScriptedServer) -> None:
    server.will(STORED)
    async with inference(server) as cloud:
        for _ in range(2):
            await cloud.upload("a.jsonl", Source(3))
    assert server.connections == 1


async def test_the_source_is_not_read_while_the_server_does_not(server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=Hang()))
    source = Source(200)
    async with inference(server, IMPATIENT) as cloud:
        error = await failed_upload(cloud, source)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.UNKNOWN)
    assert error.message == "nothing could be sent for 0.3 s"
    assert source.taken < 30  # what the kernel's buffers hold


async def test_an_upload_has_no_bound_as_long_as_it_goes_on(server: ScriptedServer) -> None:
    server.will(STORED)

    async def slow() -> AsyncIterator[bytes]:
        for _ in range(8):
            await asyncio.sleep(0.1)
            yield b"x"

    async with inference(server, CallPolicy(idle_seconds=0.4, total_seconds=0.4)) as cloud:
        assert (await cloud.upload("a.jsonl", slow())).id == "file_1"


async def test_a_source_that_goes_silent_ends_the_upload(server: ScriptedServer) -> None:
    server.will(STORED)

    async def silent() -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.Event().wait()

    async with inference(server, replace(IMPATIENT, outage_failures=1)) as cloud:
        with pytest.raises(SourceStalled, match="nothing to send came"):
            await cloud.upload("a.jsonl", silent())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.ended.wait()
        assert server.seen == [], "the server got a whole request"
        stored = await cloud.upload("a.jsonl", chunks(b"x"))
    assert stored.id == "file_1", "the cloud counted as out of order"


async def test_what_the_source_raises_comes_out_and_nothing_is_stored(server: ScriptedServer) -> None:
    server.will(STORED)

    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * MIB
        raise TimeoutError("the bucket is gone")

    async with inference(server) as cloud:
        with pytest.raises(TimeoutError, match="the bucket is gone"):
            await cloud.upload("a.jsonl", broken())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await server.ended.wait()
    assert server.seen == [], "the server got a whole request"


async def test_a_cancelled_upload_closes_its_connection(server: ScriptedServer) -> None:
    server.will(STORED)
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x"
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with inference(server) as cloud, asyncio.timeout(PATIENCE_SECONDS):
        upload = asyncio.ensure_future(cloud.upload("a.jsonl", endless()))
        await reached.wait()
        upload.cancel()
        with pytest.raises(asyncio.CancelledError):
            await upload
        assert cancelled.is_set()
        await server.ended.wait()
    assert server.seen == []


def refusal(status: int, kind: str, code: str | None = None, **headers: str) -> Reply:
    body = json.dumps({"error": {"message": "no", "type": kind, "code": code}}).encode()
    return Reply(status, body, headers={name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(frozen=True)
class Row:
    says: str
    step: Reply
    error: type[CloudError]


EARLY = [
    Row("key refused", refusal(401, "authentication_error", "revoked_api_key"), Unauthorized),
    Row("no funds", refusal(402, "insufficient_quota", "insufficient_balance"), PaymentRequired),
    Row("too large", refusal(413, "invalid_request_error", "payload_too_large"), TooLarge),
    Row("too many uploads", refusal(429, "rate_limit_error", "rate_limit_error", Retry_After="3"), RateLimited),
    Row("not the cloud's", Reply(413, b"<html>", content_type="text/html"), TooLarge),
    Row("without a body", Reply(413), TooLarge),
    Row("cut", Reply(413, b'{"err', announced=500), TooLarge),
    Row("then silent", Reply(413, b'{"err', announced=500, linger=True), TooLarge),
]


@pytest.mark.parametrize("row", EARLY, ids=[row.says for row in EARLY])
async def test_an_answer_that_comes_early_is_the_answer(row: Row, server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=row.step))
    source = Source(200)
    async with inference(server, CallPolicy(idle_seconds=5, total_seconds=0.5)) as cloud:
        error = await failed_upload(cloud, source)
    assert type(error) is row.error
    assert (error.outcome, error.status) == (Outcome.REJECTED, row.step.status)
    assert source.taken < 30, "the rest was read for nothing"
    assert server.connections == 1, "an upload was sent again"


class Answerer(threading.Thread):
    """Reads the first bytes on a connection; told to, answers and closes it with the rest unread."""

    def __init__(self, listener: socket.socket, answer: bytes) -> None:
        super().__init__()
        self._listener = listener
        self._answer = answer
        self._told = threading.Event()
        self._closed = threading.Event()

    def run(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.recv(64)
            self._told.wait(5)
            connection.sendall(self._answer)
        self._closed.set()

    def answer(self) -> None:
        """Returns when the connection is closed; the event loop stands still until then."""
        self._told.set()
        self._closed.wait(5)


async def test_an_early_answer_is_read_although_the_connection_is_reset_before_the_next_bytes() -> None:
    body = b'{"error":{"message":"too large","type":"invalid_request_error","code":"payload_too_large"}}'
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answerer = Answerer(
            listener, b"HTTP/1.1 413 Too Large\r\nContent-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body
        )
        answerer.start()

        async def source() -> AsyncIterator[bytes]:
            yield b"x" * 1000
            for _ in range(10):  # the sending waits for more
                await asyncio.sleep(0)
            answerer.answer()
            while True:
                yield b"x" * MIB

        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with Cloud(url, KEY, inference_url=url, policy=PATIENT) as cloud:
            error = await failed_upload(cloud, source())
        answerer.join(5)
    assert (type(error), error.message) == (TooLarge, "too large")


@pytest.mark.parametrize("step", [STORED, Reply(201, b"{}")], ids=["a file", "no file"])
async def test_a_success_before_the_whole_file_was_sent_is_not_believed(step: Reply, server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=step))
    async with inference(server) as cloud:
        error = await failed_upload(cloud, Source(200))
    assert (type(error), error.outcome, error.status) == (Unreadable, Outcome.UNKNOWN, step.status)
    assert "before the whole file was sent" in error.message


async def test_an_answer_that_is_there_is_preferred_to_a_silent_source(server: ScriptedServer) -> None:
    server.will(Early(after=100, then=refusal(429, "rate_limit_error")))

    async def silent() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await asyncio.Event().wait()

    async with inference(server, IMPATIENT) as cloud:
        assert type(await failed_upload(cloud, silent())) is RateLimited


@pytest.mark.parametrize(
    ("step", "error", "outcome"),
    [
        (Early(after=1000, then=Drop()), CloudUnavailable, Outcome.UNKNOWN),
        (Drop(unread=True), CloudUnavailable, Outcome.UNKNOWN),
        (Drop(), CloudUnavailable, Outcome.UNKNOWN),
        (Hang(), CloudUnavailable, Outcome.UNKNOWN),
        (Early(after=1000, then=Raw(b"HTTP/1.1 4")), CloudUnavailable, Outcome.UNKNOWN),
        (Raw(b"SSH-2.0-OpenSSH_9.9\r\n"), CloudUnavailable, Outcome.UNKNOWN),
        (Reply(500), CloudUnavailable, Outcome.UNKNOWN),
        (refusal(503, "api_error"), CloudUnavailable, Outcome.UNKNOWN),
        (Reply(200, b'{"id":"fi', announced=99), Truncated, Outcome.UNKNOWN),
        (Reply(200, b'{"id":"fi', announced=99, linger=True), Truncated, Outcome.UNKNOWN),
        (Reply(200, b"<html>", content_type="text/html"), Unreadable, Outcome.UNKNOWN),
        (Reply(200, b'{"bytes":3}'), Unreadable, Outcome.UNKNOWN),
        (Reply(200, STORED.body.ljust(400), drip=0.01), Truncated, Outcome.UNKNOWN),
    ],
    ids=repr,
)
async def test_an_upload_that_may_have_been_stored_is_unknown_and_not_sent_again(
    step: Step, error: type[CloudError], outcome: Outcome, server: ScriptedServer
) -> None:
    server.will(step)
    async with inference(server, CallPolicy(idle_seconds=2, total_seconds=0.5)) as cloud:
        caught = await failed_upload(cloud, Source(20))
    assert (type(caught), caught.outcome) == (error, outcome)
    assert caught.operation == "upload_file"
    assert server.connections == 1


@pytest.mark.parametrize(
    "step",
    [
        STORED,
        Reply(500),
        Drop(),
        Hang(),
        Reply(200, b'{"id":"fi', announced=99, linger=True),
        *(Early(after=1000, then=then) for then in (Reply(413), STORED, Drop(), Hang())),
        Early(after=1000, then=Reply(413, b"{", announced=99, linger=True)),
    ],
    ids=repr,
)
async def test_a_place_in_the_pool_is_given_back_whatever_happened(step: Step, server: ScriptedServer) -> None:
    server.will(step, step, STORED)
    pool = ConnectionPool(max_connections=1)
    policy = CallPolicy(idle_seconds=0.5, total_seconds=1, pool_seconds=0.5)
    async with contextlib.aclosing(pool):
        cloud = Cloud(server.url, KEY, inference_url=server.url, pool=pool, policy=policy)
        for _ in range(2):
            with contextlib.suppress(CloudError):
                await cloud.upload("a.jsonl", Source(20))
        with pytest.raises(LookupError):
            await cloud.upload("a.jsonl", gone())
        assert (await cloud.upload("a.jsonl", chunks(b"x"))).id == "file_1"


async def test_an_answer_that_nobody_reads_any_more_gives_its_place_back(server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=Reply(413, b"{", announced=99, linger=True)), STORED)
    pool = ConnectionPool(max_connections=1)
    policy = CallPolicy(idle_seconds=5, total_seconds=5, pool_seconds=0.2)

    async def gone_after_the_answer() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await server.asked.wait()
        for _ in range(100):  # the head of the answer comes in
            await asyncio.sleep(0)
        raise LookupError("the bucket is gone")

    async with contextlib.aclosing(pool):
        cloud = Cloud(server.url, KEY, inference_url=server.url, pool=pool, policy=policy)
        with pytest.raises(LookupError):
            await cloud.upload("a.jsonl", gone_after_the_answer())
        assert (await cloud.upload("a.jsonl", chunks(b"x"))).id == "file_1"


async def gone() -> AsyncIterator[bytes]:
    yield b"x"
    raise LookupError("the bucket is gone")


@pytest.mark.parametrize("step", [STORED, Early(after=1000, then=Reply(413))], ids=["stored", "refused early"])
async def test_an_upload_under_tls_is_as_any_other(step: Step, tmp_path: Path) -> None:
    write_serving_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    pool = ConnectionPool(ssl_context=ssl.create_default_context(cafile=tmp_path / "ca.crt"))
    async with scripted_server(tls) as server, contextlib.aclosing(pool):
        server.will(step)
        cloud = Cloud(server.url, KEY, inference_url=server.url, pool=pool, policy=PATIENT)
        if step is STORED:
            assert (await cloud.upload("a.jsonl", Source(3))).id == "file_1"
            assert server.seen[0].body.count(b"x") >= 3 * MIB
        else:
            assert type(await failed_upload(cloud, Source(200))) is TooLarge


async def test_an_upload_that_was_not_sent_says_so() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        source = Source(200)
        async with Cloud(url, KEY, inference_url=url) as cloud:
            error = await failed_upload(cloud, source)
    assert (type(error), error.outcome) == (CloudUnavailable, Outcome.NOT_SENT)
    assert source.taken <= 1


async def test_an_upload_counts_once_against_the_rate(server: ScriptedServer) -> None:
    server.will(STORED)
    limiter = RateLimiter(0.001, burst=2, reserved_share=0, max_wait_seconds=0)
    async with inference(server, limiter=limiter) as cloud:
        await cloud.upload("a.jsonl", Source(10))
        await cloud.upload("a.jsonl", Source(10))
        source = Source(10)
        error = await failed_upload(cloud, source)
    assert (type(error), error.outcome, source.taken) == (RateLimited, Outcome.NOT_SENT, 0)


async def test_a_key_that_was_refused_is_not_used_for_an_upload(server: ScriptedServer) -> None:
    server.will(refusal(401, "authentication_error", "invalid_api_key"))
    async with inference(server) as cloud:
        assert type(await failed_upload(cloud, Source(1))) is Unauthorized
        assert type(await failed_upload(cloud, Source(1))) is CircuitOpen
    assert len(server.seen) == 1


async def test_without_an_inference_url_nothing_is_sent() -> None:
    async with Cloud("http://management.invalid", KEY) as cloud:
        error = await failed_upload(cloud, Source(1))
        assert (type(error), error.outcome) == (NoInferenceUrl, Outcome.NOT_SENT)
        assert str(error).startswith("upload_file: not sent: it belongs to the inference API")
        with pytest.raises(NoInferenceUrl):
            await cloud.call(LIST_FILES)
        with pytest.raises(NoInferenceUrl):
            cloud.download("file_1")


async def test_a_file_is_not_sent_by_a_plain_call(server: ScriptedServer) -> None:
    async with inference(server) as cloud:
        with pytest.raises(TypeError, match=r"upload_file is done by Cloud\.upload"):
            await cloud.call(UPLOAD_FILE)


async def test_secrets_in_a_refusal_are_not_repeated(server: ScriptedServer) -> None:
    body = json.dumps({"error": {"message": f"bad key {KEY}", "type": f"{KEY}", "code": f"x{KEY}"}}).encode()
    server.will(Reply(400, body))
    async with inference(server) as cloud:
        error = await failed_upload(cloud, chunks(b"x"))
    assert KEY not in f"{error} {error.error_type} {error.code} {error.args}"
