"""Uploads: a form that is sent once, in small pieces, and under the same limits as any call."""

import contextlib
import json
import socket
import ssl
from pathlib import Path

import pytest

from relay_client import (
    CircuitOpen,
    Cloud,
    CloudUnavailable,
    ConnectionPool,
    NoInferenceUrl,
    Outcome,
    RateLimited,
    RateLimiter,
    TooLarge,
    Unauthorized,
)
from relay_client.operations import LIST_FILES, UPLOAD_FILE
from relay_client.uploads import FileForm
from tests.support.certificates import write_serving_certificate
from tests.unit.client.conftest import KEY
from tests.unit.client.scripted import Early, Reply, ScriptedServer, Step, scripted_server
from tests.unit.client.uploads import MIB, PATIENT, STORED, Source, chunks, failed_upload, inference, refusal


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
