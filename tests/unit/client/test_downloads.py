"""Downloads: to the end of the file through cuts, and never a part taken for the whole."""

import asyncio
import contextlib
import json
import random

import pytest

from relay_client import (
    BadRequest,
    CallPolicy,
    CircuitOpen,
    Cloud,
    CloudError,
    CloudUnavailable,
    ConnectionPool,
    NotFound,
    Outcome,
    RateLimited,
    RateLimiter,
    Truncated,
    Unauthorized,
    Unreadable,
)
from relay_client.operations import DOWNLOAD_FILE
from tests.support.eventually import PATIENCE_SECONDS
from tests.unit.client.conftest import KEY, Timeline
from tests.unit.client.scripted import Drop, Hang, Raw, Reply, ScriptedServer, Step

FILE = b"".join(b"%07d\n" % line for line in range(500))
SIZE = len(FILE)
ETAG = '"v1"'
PAGE = Reply(200, FILE * 100, content_type="text/html")


def whole(upto: int = SIZE, **headers: str) -> Reply:
    """The file from its beginning, cut at `upto`."""
    return Reply(200, FILE[:upto], headers, "application/jsonl", announced=None if upto == SIZE else SIZE)


def rest(start: int, upto: int = SIZE, **headers: str) -> Reply:
    """The file from `start` on, cut at `upto`."""
    headers = {"Content-Range": f"bytes {start}-{SIZE - 1}/{SIZE}", **headers}
    return Reply(206, FILE[start:upto], headers, "application/jsonl", announced=None if upto == SIZE else SIZE - start)


def chunked(body: bytes, *, end: bool = True, head: str = "200 OK") -> Raw:
    """A body whose length is not told before."""
    coded = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + (b"0\r\n\r\n" if end else b"")
    return Raw(f"HTTP/1.1 {head}\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + coded)


def inference(server: ScriptedServer, policy: CallPolicy | None = None, limiter: RateLimiter | None = None) -> Cloud:
    return Cloud(
        "http://management.invalid",
        KEY,
        inference_url=server.url,
        policy=policy or CallPolicy(attempt_seconds=2, idle_seconds=2),
        limiter=limiter,
        runtime=Timeline().runtime(),
    )


async def read(cloud: Cloud, offset: int = 0) -> bytes:
    async with cloud.download("file_1", offset=offset) as pieces:
        return b"".join([piece async for piece in pieces])


async def failed_read(cloud: Cloud, offset: int = 0) -> CloudError:
    with pytest.raises(CloudError) as caught:
        await read(cloud, offset)
    return caught.value


def ranges(server: ScriptedServer) -> list[str | None]:
    return [seen.headers.get("range") for seen in server.seen]


async def test_a_file_is_read_whole(server: ScriptedServer) -> None:
    server.will(whole())
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
        assert await read(cloud) == FILE
    assert server.targets == ["GET /v1/files/file_1/content"] * 2
    assert ranges(server) == [None, None]
    assert server.seen[0].headers["accept"] == "*/*"
    assert server.seen[0].headers["accept-encoding"] == "identity"
    assert server.connections == 1


async def test_an_empty_file_is_read_whole(server: ScriptedServer) -> None:
    server.will(Reply(200, b"", content_type=None))
    async with inference(server) as cloud:
        assert await read(cloud) == b""
    assert len(server.seen) == 1


async def test_a_file_whose_length_is_not_told_before_is_read_whole(server: ScriptedServer) -> None:
    server.will(chunked(FILE))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    "cut",
    [
        whole(1000),
        whole(1000).__class__(200, FILE[:1000], announced=SIZE, linger=True),
        chunked(FILE[:1000], end=False),
    ],
    ids=["cut", "silent", "cut between chunks"],
)
async def test_after_a_cut_the_rest_is_asked_for(cut: Step, server: ScriptedServer) -> None:
    server.will(cut, rest(1000, 3000), rest(3000))
    async with inference(server, CallPolicy(idle_seconds=0.2)) as cloud:
        assert await read(cloud) == FILE
    assert ranges(server) == [None, "bytes=1000-", "bytes=3000-"]


async def test_where_the_service_has_no_ranges_what_was_read_is_read_over(server: ScriptedServer) -> None:
    server.will(whole(1000), whole(500), whole(1001), whole())
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert ranges(server) == [None, "bytes=1000-", "bytes=1000-", "bytes=1001-"]


@pytest.mark.parametrize("end", [1500, SIZE - 1])
async def test_a_length_that_was_told_counts_though_the_next_answer_tells_none(
    end: int, server: ScriptedServer
) -> None:
    server.will(whole(1000), chunked(FILE[:end]), chunked(FILE))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
        server.will(whole(1000), chunked(FILE[:end]))
        assert type(await failed_read(cloud)) is Truncated


async def test_a_file_is_read_from_an_offset(server: ScriptedServer) -> None:
    server.will(rest(1000))
    async with inference(server) as cloud:
        assert await read(cloud, 1000) == FILE[1000:]
    assert ranges(server) == ["bytes=1000-"]


@pytest.mark.parametrize("answer", [whole(), chunked(FILE)], ids=["length told", "chunked"])
async def test_a_file_is_read_from_an_offset_without_ranges(answer: Step, server: ScriptedServer) -> None:
    server.will(answer)
    async with inference(server) as cloud:
        assert await read(cloud, 1000) == FILE[1000:]


@pytest.mark.parametrize(
    "answer",
    [Reply(416, headers={"Content-Range": f"bytes */{SIZE}"}), whole(), chunked(FILE)],
    ids=["no such range", "length told", "chunked"],
)
async def test_from_the_end_of_a_file_there_is_nothing(answer: Step, server: ScriptedServer) -> None:
    server.will(answer)
    async with inference(server) as cloud:
        assert await read(cloud, SIZE) == b""


@pytest.mark.parametrize(
    "answer",
    [Reply(416, headers={"Content-Range": f"bytes */{SIZE}"}), Reply(416), whole(), chunked(FILE)],
    ids=["no such range", "not even the end", "length told", "chunked"],
)
async def test_from_beyond_the_end_of_a_file_it_is_an_error(answer: Step, server: ScriptedServer) -> None:
    server.will(answer)
    async with inference(server) as cloud:
        error = await failed_read(cloud, SIZE + 1)
    assert (type(error), error.status) == (BadRequest, 416)
    assert f"no byte {SIZE + 1}" in error.message
    assert len(server.seen) == 1


def test_a_negative_offset_is_refused() -> None:
    cloud = Cloud("http://management.invalid", KEY, inference_url="http://inference.invalid")
    with pytest.raises(ValueError, match="cannot be negative"):
        cloud.download("file_1", offset=-1)


async def test_parts_that_the_server_makes_smaller_are_put_together(server: ScriptedServer) -> None:
    part = Reply(206, FILE[1000:1500], {"Content-Range": f"bytes 1000-1499/{SIZE}"})
    server.will(whole(1000), part, rest(1500))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert ranges(server) == [None, "bytes=1000-", "bytes=1500-"]


async def test_the_rest_is_asked_for_of_the_same_version(server: ScriptedServer) -> None:
    server.will(whole(1000, ETag=ETAG), rest(1000, ETag=ETAG))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert [seen.headers.get("if-range") for seen in server.seen] == [None, ETAG]


async def test_a_weak_version_is_not_asked_for(server: ScriptedServer) -> None:
    server.will(whole(1000, ETag='W/"v1"'), rest(1000))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert "if-range" not in server.seen[1].headers


@pytest.mark.parametrize(
    "other",
    [
        whole(ETag='"v2"'),
        rest(1000, ETag='"v2"'),
        Reply(200, FILE + b"x"),
        Reply(206, FILE[1000:], {"Content-Range": f"bytes 1000-{SIZE - 1}/{SIZE + 1}"}),
    ],
    ids=["version", "version of the rest", "length", "length of the rest"],
)
async def test_another_file_is_not_sewn_to_the_first(other: Step, server: ScriptedServer) -> None:
    server.will(whole(1000, ETag=ETAG), other)
    async with inference(server) as cloud:
        error = await failed_read(cloud)
    assert (type(error), error.message) == (Unreadable, "the file changed while it was read")


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (Reply(206, FILE[999:], {"Content-Range": f"bytes 999-{SIZE - 1}/{SIZE}"}), "not the bytes from 1000 on"),
        (Reply(206, FILE[1000:]), "not the bytes from 1000 on"),
        (Reply(206, b"", {"Content-Range": f"bytes 1000-999/{SIZE}"}), "not the bytes from 1000 on"),
        (Reply(206, b"x", {"Content-Range": "items 1000-1001/2000"}), "not the bytes from 1000 on"),
        (Reply(206, FILE[1000:], {"Content-Range": f"bytes 1000-{SIZE - 1}/*"}), "does not say where the file ends"),
        (Raw(b"HTTP/1.1 200 OK\r\n\r\n" + FILE), "it does not say where the file ends"),
        (Raw(b"HTTP/1.0 200 OK\r\n\r\n" + FILE), "it does not say where the file ends"),
        (Reply(200, b"<html>", content_type="text/html; charset=utf-8"), "the body is HTML"),
        (Reply(200, FILE, {"Content-Encoding": "gzip"}), "encoded as gzip"),
        (Reply(204, content_type=None), "does not come with this status"),
        (Reply(302, headers={"Location": "http://elsewhere.invalid/?signature=x"}), "redirect to http://elsewhere"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_not_the_file_is_not_read_as_it(answer: Step, complaint: str, server: ScriptedServer) -> None:
    server.will(answer)
    async with inference(server) as cloud:
        error = await failed_read(cloud, 1000)
    assert type(error) is Unreadable
    assert complaint in error.message
    assert len(server.seen) == 1


async def test_a_body_that_is_longer_than_its_range_is_not_handed_out(server: ScriptedServer) -> None:
    head = f"206 Partial Content\r\nContent-Range: bytes 1000-1009/{SIZE}"
    server.will(chunked(FILE[1000:1020], head=head))
    async with inference(server) as cloud:
        error = await failed_read(cloud, 1000)
    assert (type(error), error.message) == (Unreadable, "cannot read the answer: it goes on after its end")


NONE_OF_THE_REST = chunked(b"", head=f"206 OK\r\nContent-Range: bytes 1000-{SIZE - 1}/{SIZE}")


@pytest.mark.parametrize(
    "nothing", [whole(1000), rest(1000, 1000), NONE_OF_THE_REST, Drop(), Reply(503), Reply(429)], ids=repr
)
async def test_after_four_attempts_that_bring_nothing_it_gives_up(nothing: Step, server: ScriptedServer) -> None:
    server.will(whole(1000), nothing)
    async with inference(server) as cloud, cloud.download("file_1") as pieces:
        assert await anext(pieces) == FILE[:1000]
        with pytest.raises((Truncated, CloudUnavailable, RateLimited)):
            await anext(pieces)
    assert len(server.seen) == 4


async def test_attempts_that_bring_something_are_not_counted(server: ScriptedServer) -> None:
    server.will(whole(100), *(rest(at, at + 100) for at in range(100, 3900, 100)), rest(3900))
    async with inference(server) as cloud:
        assert await read(cloud) == FILE
    assert len(server.seen) == 40


@pytest.mark.parametrize("seed", range(20))
async def test_through_any_cuts_the_file_is_whole(seed: int, server: ScriptedServer) -> None:
    chance = random.Random(seed)
    steps: list[Step] = []
    at = 0
    for _ in range(chance.randint(1, 12)):
        end = chance.randint(at, SIZE - 1)
        steps += chance.choice([[], [Drop()], [Reply(503), Drop(unread=True)]])
        match chance.choice(["range", "no range", "chunked"]):
            case "range" if at > 0:
                steps.append(rest(at, end))
            case "chunked":
                steps.append(chunked(FILE[:end], end=False))
            case _:
                steps.append(whole(end))
        at = max(at, end)
    server.will(*steps, whole())
    policy = CallPolicy(max_attempts=1000, attempt_seconds=5, idle_seconds=5)
    async with inference(server, policy) as cloud:
        assert await read(cloud) == FILE


async def test_a_file_may_drip_as_long_as_it_does(server: ScriptedServer) -> None:
    server.will(Reply(200, FILE[:60], drip=0.01))
    policy = CallPolicy(attempt_seconds=0.3, idle_seconds=0.3, total_seconds=0.3, max_attempts=1)
    async with inference(server, policy) as cloud:
        assert await read(cloud) == FILE[:60]


async def test_a_head_that_does_not_come_ends_the_attempt(server: ScriptedServer) -> None:
    server.will(Hang(), whole())
    async with inference(server, CallPolicy(attempt_seconds=0.2)) as cloud:
        assert await read(cloud) == FILE


async def test_a_file_that_is_not_there_fails_when_it_is_opened(server: ScriptedServer) -> None:
    body = {"error": {"message": "no such file", "type": "not_found_error", "code": None}}
    server.will(Reply(404, json.dumps(body).encode()))
    async with inference(server) as cloud:
        download = cloud.download("file_1")
        with pytest.raises(NotFound) as caught:
            await download.__aenter__()
    error = caught.value
    assert (error.message, error.error_type, error.outcome) == ("no such file", "not_found_error", Outcome.REJECTED)
    assert str(error) == "download_file: 404: no such file"


async def test_a_file_that_vanishes_while_it_is_read_is_not_ended_by_that(server: ScriptedServer) -> None:
    server.will(whole(1000), Reply(404, b'{"error":{"message":"gone","type":"not_found_error","code":null}}'))
    async with inference(server) as cloud:
        assert type(await failed_read(cloud)) is NotFound


async def test_a_refused_key_opens_the_circuit_for_downloads_too(server: ScriptedServer) -> None:
    server.will(Reply(401, b'{"error":{"message":"no","type":"authentication_error","code":"invalid_api_key"}}'))
    async with inference(server) as cloud:
        assert type(await failed_read(cloud)) is Unauthorized
        assert type(await failed_read(cloud)) is CircuitOpen
    assert len(server.seen) == 1


@pytest.mark.parametrize(("answer", "closes"), [(whole(), True), (Reply(416), False), (PAGE, False)], ids=repr)
async def test_only_a_file_that_comes_closes_the_circuit(answer: Reply, closes: bool, server: ScriptedServer) -> None:
    server.will(Reply(401), answer)
    timeline = Timeline()
    cloud = Cloud(server.url, KEY, inference_url=server.url, runtime=timeline.runtime())
    async with cloud:
        assert type(await failed_read(cloud)) is Unauthorized
        timeline.now += 300
        with contextlib.suppress(BadRequest, Unreadable):
            await read(cloud)
        server.will(whole())
        if closes:
            assert await read(cloud) == FILE
        else:
            assert type(await failed_read(cloud)) is CircuitOpen


async def test_every_attempt_takes_from_the_rate_limit_and_no_piece_does(server: ScriptedServer) -> None:
    server.will(whole(1000), rest(1000))
    timeline = Timeline()
    limiter = RateLimiter(0.01, burst=2, reserved_share=0, clock=timeline.clock, sleep=timeline.sleep)
    async with inference(server, limiter=limiter) as cloud:
        assert await read(cloud) == FILE
        assert type(await failed_read(cloud)) is RateLimited
    assert len(server.seen) == 2


@pytest.mark.parametrize("answer", [whole(), Reply(416), Reply(204), Reply(404, b"{"), whole(1000), PAGE], ids=repr)
async def test_a_download_that_is_left_gives_its_connection_back(answer: Step, server: ScriptedServer) -> None:
    server.will(answer, answer, Reply(200, FILE * 100))
    pool = ConnectionPool(max_connections=1)
    policy = CallPolicy(attempt_seconds=2, idle_seconds=2, pool_seconds=0.5, max_attempts=1)
    cloud = Cloud(server.url, KEY, inference_url=server.url, pool=pool, policy=policy)
    try:
        for _ in range(2):
            try:
                async with cloud.download("file_1") as pieces:
                    await anext(pieces)
            except CloudError:
                pass
        assert await read(cloud) == FILE * 100
    finally:
        await pool.aclose()


async def test_pieces_are_small_however_long_the_lines_are(server: ScriptedServer) -> None:
    server.will(Reply(200, b"x" * 20_000_000))
    async with inference(server) as cloud, cloud.download("file_1") as pieces:
        sizes = [len(piece) async for piece in pieces]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1024 * 1024


async def test_a_file_is_not_read_by_a_plain_call(server: ScriptedServer) -> None:
    async with inference(server) as cloud:
        with pytest.raises(TypeError, match=r"download_file is done by Cloud\.download"):
            await cloud.call(DOWNLOAD_FILE, id="file_1")


async def test_a_malformed_chunk_between_two_reads_breaks_it_off() -> None:
    taken, closed = asyncio.Event(), asyncio.Event()

    async def answer(request: asyncio.StreamReader, response: asyncio.StreamWriter) -> None:
        await request.readuntil(b"\r\n\r\n")
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/jsonl\r\nTransfer-Encoding: chunked\r\n\r\n"
        response.write(head + b"%x\r\n%s\r\n" % (len(FILE), FILE))
        await asyncio.wait_for(taken.wait(), PATIENCE_SECONDS)
        response.write(b"ZZ\r\n")
        with contextlib.suppress(ConnectionError):
            await request.read()  # until the client has hung up
        response.close()
        closed.set()

    async def read_slowly(cloud: Cloud) -> None:
        async with cloud.download("file_1", offset=0) as pieces:
            async for _ in pieces:
                listening.close()  # nothing more can be asked
                taken.set()
                await asyncio.wait_for(closed.wait(), PATIENCE_SECONDS)

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    async with Cloud("http://management.invalid", KEY, inference_url=url, runtime=Timeline().runtime()) as cloud:
        with pytest.raises(CloudError):
            await read_slowly(cloud)
