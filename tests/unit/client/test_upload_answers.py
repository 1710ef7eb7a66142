"""What an answer to an upload means, early or late, whole or cut; and its connection's place in the pool."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from relay_client import (
    CallPolicy,
    Cloud,
    CloudError,
    CloudUnavailable,
    ConnectionPool,
    Outcome,
    PaymentRequired,
    RateLimited,
    TooLarge,
    Truncated,
    Unauthorized,
    Unreadable,
)
from relay_client.pool import OpenAnswer, Request
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Drop, Early, Hang, Raw, Reply, ScriptedServer, Step
from tests.unit.client.uploads import IMPATIENT, MIB, PATIENT, STORED, Source, chunks, failed_upload, inference, refusal


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
            self._told.wait(PATIENCE_SECONDS)
            connection.sendall(self._answer)
        self._closed.set()

    def answer(self) -> None:
        """Returns when the connection is closed; the event loop stands still until then."""
        self._told.set()
        self._closed.wait(PATIENCE_SECONDS)


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
        answerer.join(PATIENCE_SECONDS)
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


class HeadAwaited(ConnectionPool):
    """Connections that tell when the head of an answer is there."""

    def __init__(self) -> None:
        super().__init__(max_connections=1)
        self.head_came = asyncio.Event()

    async def open(self, request: Request) -> OpenAnswer:
        answer = await super().open(request)
        self.head_came.set()
        return answer


async def test_an_answer_that_nobody_reads_any_more_gives_its_place_back(server: ScriptedServer) -> None:
    server.will(Early(after=1000, then=Reply(413, b"{", announced=99, linger=True)), STORED)
    pool = HeadAwaited()
    policy = CallPolicy(idle_seconds=5, total_seconds=5, pool_seconds=0.2)

    async def gone_after_the_answer() -> AsyncIterator[bytes]:
        yield b"x" * 1000
        await pool.head_came.wait()
        raise LookupError("the bucket is gone")

    async with contextlib.aclosing(pool):
        cloud = Cloud(server.url, KEY, inference_url=server.url, pool=pool, policy=policy)
        with pytest.raises(LookupError):
            await cloud.upload("a.jsonl", gone_after_the_answer())
        assert (await cloud.upload("a.jsonl", chunks(b"x"))).id == "file_1"


async def gone() -> AsyncIterator[bytes]:
    yield b"x"
    raise LookupError("the bucket is gone")
