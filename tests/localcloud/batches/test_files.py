"""Files: uploaded, listed, downloaded whole and in part, deleted (assumed: OpenAI's paths and fields)."""

from __future__ import annotations

import asyncio
import http.client
import json
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from relay_localcloud.batches.upload import LARGEST_UPLOAD
from tests.localcloud.support.batches import (
    BOUNDARY,
    batch_of,
    content,
    create,
    errors,
    jsonl,
    multipart,
    post_file,
    record,
    upload,
)
from tests.localcloud.support.inference import CHAT, call, ok, refusal
from tests.localcloud.support.server import Server
from tests.support.eventually import PATIENCE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Organization

LIMIT = 200_000_000
MIB = 1024 * 1024
NOT_FOUND = (404, "not_found_error", None)


async def test_an_upload_answers_the_file(organization: Organization) -> None:
    answer = await post_file(organization, multipart(b"some bytes", filename="größe.jsonl"))
    assert answer.status == 200
    file = answer.body
    assert file["id"].startswith("file_")
    assert isinstance(file["created_at"], int)
    assert file == {
        "id": file["id"],
        "object": "file",
        "bytes": 10,
        "created_at": file["created_at"],
        "filename": "größe.jsonl",
        "purpose": "batch",
        "status": "processed",
    }
    assert await ok(organization, "GET", f"/v1/files/{file['id']}") == file


async def test_every_byte_comes_back(organization: Organization) -> None:
    every = bytes(range(256)) * 300 + f"\r\n--{BOUNDARY[:-1]}\r\n--\r\n--{BOUNDARY}".encode()[:-3]
    for sent in (b"", b"\r\n", every):
        assert await content(organization, await upload(organization, sent)) == sent


async def test_the_purpose_may_come_after_the_file(organization: Organization) -> None:
    body = multipart(b"x", purpose=None).removesuffix(f"--{BOUNDARY}--\r\n".encode())
    body += (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{BOUNDARY}--\r\n'.encode()
    )
    assert (await post_file(organization, body)).status == 200


BAD_UPLOADS: dict[str, tuple[bytes, str]] = {
    "no purpose": (multipart(b"x", purpose=None), BOUNDARY),
    "another purpose": (multipart(b"x", purpose="fine-tune"), BOUNDARY),
    "no file": (multipart(b"x").replace(b'name="file"', b'name="data"'), BOUNDARY),
    "two files": (multipart(b"x").removesuffix(f"--{BOUNDARY}--\r\n".encode()) + multipart(b"y"), BOUNDARY),
    "nothing": (b"", BOUNDARY),
    "no multipart": (b"hello", BOUNDARY),
    "cut in the file": (multipart(b"x" * 100)[:-60], BOUNDARY),
    "cut in a header": (multipart(b"x")[:50], BOUNDARY),
    "another boundary": (multipart(b"x"), "another"),
    "an endless boundary": (multipart(b"x"), "b" * 300),
    "an endless field": (multipart(b"x", purpose="batch" * 1000), BOUNDARY),
    "too many parts": (multipart(b"x").removesuffix(f"--{BOUNDARY}--\r\n".encode()) * 30, BOUNDARY),
}


@pytest.mark.parametrize("kind", BAD_UPLOADS)
async def test_what_is_no_upload_is_400_and_leaves_nothing(organization: Organization, kind: str) -> None:
    answer = await post_file(organization, *BAD_UPLOADS[kind])
    assert refusal(answer) == (400, "invalid_request_error", None)
    assert (await ok(organization, "GET", "/v1/files"))["data"] == []


async def test_a_body_that_is_no_multipart_is_400(organization: Organization) -> None:
    answer = await call(organization, "POST", "/v1/files", {"purpose": "batch"})
    assert refusal(answer) == (400, "invalid_request_error", None)


async def test_files_are_listed_newest_first_in_pages(organization: Organization) -> None:
    assert await ok(organization, "GET", "/v1/files") == {
        "object": "list",
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }
    ids = [await upload(organization, b"x") for _ in range(5)]
    page = await ok(organization, "GET", "/v1/files?limit=2")
    assert ([file["id"] for file in page["data"]], page["has_more"]) == ([ids[4], ids[3]], True)
    assert (page["first_id"], page["last_id"]) == (ids[4], ids[3])
    await ok(organization, "DELETE", f"/v1/files/{ids[3]}")
    page = await ok(organization, "GET", f"/v1/files?limit=3&after={ids[3]}")
    assert ([file["id"] for file in page["data"]], page["has_more"]) == ([ids[2], ids[1], ids[0]], False)
    assert (await ok(organization, "GET", "/v1/files?purpose=batch_output"))["data"] == []


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
@pytest.mark.parametrize("query", ["limit=0", "limit=201", "limit=-1", "limit=x", "after=file_nothing"])
async def test_a_page_that_does_not_exist_is_400(organization: Organization, path: str, query: str) -> None:
    answer = await call(organization, "GET", f"{path}?{query}")
    assert refusal(answer) == (400, "invalid_request_error", None)


async def test_a_deleted_file_is_gone(organization: Organization) -> None:
    file_id = await upload(organization, b"x")
    deleted = await ok(organization, "DELETE", f"/v1/files/{file_id}")
    assert deleted == {"id": file_id, "object": "file", "deleted": True}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/content")):
        assert refusal(await call(organization, method, f"/v1/files/{file_id}{path}")) == NOT_FOUND
    answer = await call(
        organization, "POST", "/v1/batches", {"input_file_id": file_id, "endpoint": "/v1/chat/completions"}
    )
    assert refusal(answer) == NOT_FOUND


async def test_a_stale_read_lacks_the_content_of_a_deleted_file(organization: Organization) -> None:
    stale = {"effect": {"staleSeconds": 5}, "organizationId": organization.id}
    for path in ("/v1/files/{id}", "/v1/files/{id}/content"):
        await organization.server.ok("POST", "/faults", {"operation": f"GET {path}", **stale})
    file_id = await upload(organization, b"x")
    await organization.server.advance(10)
    await ok(organization, "DELETE", f"/v1/files/{file_id}")
    assert (await ok(organization, "GET", f"/v1/files/{file_id}"))["bytes"] == 1
    assert refusal(await call(organization, "GET", f"/v1/files/{file_id}/content")) == NOT_FOUND


async def test_the_input_of_a_live_batch_cannot_be_deleted(organization: Organization) -> None:
    batch = await create(organization, [record("a")])
    answer = await call(organization, "DELETE", f"/v1/files/{batch['input_file_id']}")
    assert refusal(answer) == (409, "invalid_request_error", None)
    await organization.server.advance(100)
    await ok(organization, "DELETE", f"/v1/files/{batch['input_file_id']}")
    shown = await batch_of(organization, batch["id"])
    assert len((await content(organization, shown["output_file_id"])).splitlines()) == 1


RANGES: dict[str, tuple[int, str | None, bytes]] = {
    "bytes=0-0": (206, "bytes 0-0/10", b"0"),
    "bytes=2-4": (206, "bytes 2-4/10", b"234"),
    "bytes=7-": (206, "bytes 7-9/10", b"789"),
    "bytes=7-99": (206, "bytes 7-9/10", b"789"),
    "bytes=-3": (206, "bytes 7-9/10", b"789"),
    "bytes=-99": (206, "bytes 0-9/10", b"0123456789"),
    "Bytes=0-1": (206, "bytes 0-1/10", b"01"),
    "bytes=0-1,3-4": (200, None, b"0123456789"),
    "bytes=4-2": (200, None, b"0123456789"),
    "bytes=-": (200, None, b"0123456789"),
    "bytes=x": (200, None, b"0123456789"),
    "lines=0-1": (200, None, b"0123456789"),
}


@pytest.mark.parametrize("asked", RANGES)
async def test_a_single_range_is_answered_with_its_bytes(organization: Organization, asked: str) -> None:
    file_id = await upload(organization, b"0123456789")
    headers = {"Authorization": f"Bearer {organization.api_key}", "Range": asked}
    answer = await call(organization, "GET", f"/v1/files/{file_id}/content", headers=headers)
    assert (answer.status, answer.headers.get("content-range"), answer.raw) == RANGES[asked]
    assert answer.headers["content-length"] == str(len(answer.raw))
    assert answer.headers["accept-ranges"] == "bytes"


@pytest.mark.parametrize("asked", ["bytes=10-", "bytes=99-100", "bytes=-0"])
async def test_a_range_without_a_byte_is_416(organization: Organization, asked: str) -> None:
    file_id = await upload(organization, b"0123456789")
    headers = {"Authorization": f"Bearer {organization.api_key}", "Range": asked}
    answer = await call(organization, "GET", f"/v1/files/{file_id}/content", headers=headers)
    assert answer.headers["content-range"] == "bytes */10"
    assert refusal(answer) == (416, "invalid_request_error", None)


async def test_a_range_of_another_content_is_the_whole(organization: Organization) -> None:
    file_id = await upload(organization, b"0123456789")
    whole = await call(organization, "GET", f"/v1/files/{file_id}/content")
    for condition, status in ((whole.headers["etag"], 206), ('"another"', 200)):
        headers = {"Authorization": f"Bearer {organization.api_key}", "Range": "bytes=0-1", "If-Range": condition}
        assert (await call(organization, "GET", f"/v1/files/{file_id}/content", headers=headers)).status == status


KNOWN = {"{etag}": 304, "W/{etag}": 304, '"x", {etag}': 304, " * ": 304, '"x"': 206, "": 206, "x": 206}


@pytest.mark.parametrize("known", KNOWN)
async def test_a_content_that_the_caller_has_is_not_sent_again(organization: Organization, known: str) -> None:
    path = f"/v1/files/{await upload(organization, b'0123456789')}/content"
    etag = (await call(organization, "GET", path)).headers["etag"]
    headers = {"Authorization": f"Bearer {organization.api_key}", "If-None-Match": known.format(etag=etag)}
    answer = await call(organization, "GET", path, headers={**headers, "Range": "bytes=0-1"})
    assert (answer.status, answer.headers["etag"]) == (KNOWN[known], etag)
    assert answer.raw == (b"" if KNOWN[known] == 304 else b"01")


class SlowUpload:
    """An upload whose end is held back; once this is made, it has its place or was refused one."""

    def __init__(self, organization: Organization) -> None:
        parts = urlsplit(organization.server.ready["inferenceUrl"])
        assert parts.hostname
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=PATIENCE_SECONDS)
        self._body = multipart(b"x" * 1000)
        self._connection.putrequest("POST", "/v1/files")
        self._connection.putheader("Authorization", f"Bearer {organization.api_key}")
        self._connection.putheader("Content-Type", f"multipart/form-data; boundary={BOUNDARY}")
        self._connection.putheader("Content-Length", str(len(self._body)))
        self._connection.putheader("Expect", "100-continue")
        self._connection.endheaders()
        self._connection.sock.recv(1, socket.MSG_PEEK)  # "100 Continue" comes once the body is read
        self._connection.send(self._body[:500])

    def finish(self) -> int:
        self._connection.send(self._body[500:])
        status = self._connection.getresponse().status
        self._connection.close()
        return status

    def answer(self) -> tuple[int, Any, bool]:
        """Status and body of what is answered before the end, and whether that ends the connection."""
        answer = self._connection.getresponse()
        body = json.loads(answer.read())
        return answer.status, body, answer.will_close

    def cut(self) -> None:
        self._connection.close()


async def test_too_many_uploads_at_once_are_429(organization: Organization) -> None:
    server = organization.server
    await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 2})
    try:
        held = [SlowUpload(organization), SlowUpload(organization)]
        answer = await post_file(organization, multipart(b"x"))
        assert refusal(answer) == (429, "rate_limit_error", "rate_limit_error")
        assert int(answer.headers["retry-after"]) >= 1
        other = await server.organization()
        assert (await post_file(other, multipart(b"x"))).status == 200
        assert await asyncio.to_thread(held[0].finish) == 200
        assert (await post_file(organization, multipart(b"x"))).status == 200
        held[1].cut()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await asyncio.gather(*[post_file(organization, multipart(b"x")) for _ in "ab"]))[1].status != 200:
                pass
    finally:
        await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 4})


async def test_an_upload_that_stands_still_is_408_and_leaves_its_place_to_the_next(organization: Organization) -> None:
    server = organization.server
    await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 1, "stalledBodySeconds": 0.2})
    try:
        slow = SlowUpload(organization)
        status, body, ends = await asyncio.to_thread(slow.answer)
        assert (status, body["error"]["type"], ends) == (408, "invalid_request_error", True)
        await server.ok("PATCH", "/settings", {"stalledBodySeconds": 30})
        assert (await post_file(organization, multipart(b"x"))).status == 200
    finally:
        await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 4, "stalledBodySeconds": 30})
    assert len((await ok(organization, "GET", "/v1/files"))["data"]) == 1


async def test_an_upload_that_is_cut_leaves_nothing(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 1})
    organization = server.seeded()
    slow = SlowUpload(organization)
    slow.cut()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await post_file(organization, multipart(b"x"))).status != 200:
            pass
    listed = await ok(organization, "GET", "/v1/files")
    assert {path.name for path in (tmp_path / "state" / "files").iterdir()} == {file["id"] for file in listed["data"]}
    assert server.complaints == []


async def test_an_upload_that_a_kill_cut_leaves_nothing(start_server: StartServer, tmp_path: Path) -> None:
    state = ("--state", str(tmp_path / "state"), "--clock", "frozen")
    server = start_server(*state)
    await server.ok("PATCH", "/settings", {"maxConcurrentUploads": 1})
    kept = await upload(server.seeded(), b"kept")
    held = SlowUpload(server.seeded())
    before = {file["id"] for file in (await ok(server.seeded(), "GET", "/v1/files"))["data"]}
    server.kill()
    held.cut()
    assert len(list((tmp_path / "state" / "files").iterdir())) == len(before) + 1
    again = start_server(*state).seeded()
    assert {path.name for path in (tmp_path / "state" / "files").iterdir()} == before
    assert await content(again, kept) == b"kept"


async def test_a_full_disk_is_said_and_leaves_nothing(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    organization = server.seeded()
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (8 * MIB, 8 * MIB))
    answer = await post_file(organization, multipart(b"x" * (9 * MIB)))
    assert refusal(answer) == (503, "api_error", "upstream_unavailable")
    assert list((tmp_path / "state" / "files").iterdir()) == []
    assert (await post_file(organization, multipart(b"x" * MIB))).status == 200
    records = [record("r", "x" * (9 * MIB))]
    answer = await call(organization, "POST", "/v1/batches", {"requests": records, "endpoint": CHAT})
    assert refusal(answer) == (503, "api_error", "upstream_unavailable")
    assert (await ok(organization, "GET", "/v1/batches"))["data"] == []


async def test_results_wait_for_room_on_the_disk(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 0})
    organization = server.seeded()
    batch = await create(organization, [record(str(number), "x" * (MIB // 2)) for number in range(20)])
    no_room = (2 * MIB, resource.RLIM_INFINITY)
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, no_room)
    await server.advance(600)
    shown = await batch_of(organization, batch["id"])
    assert shown["status"] == "in_progress"
    assert shown["request_counts"]["completed"] < 20
    assert "waits for its files" in server.log
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await server.advance(600)
    shown = await batch_of(organization, batch["id"])
    raw = await content(organization, shown["output_file_id"])
    assert [json.loads(line)["custom_id"] for line in raw.splitlines()] == [str(number) for number in range(20)]
    assert shown["usage"]["input_tokens"] == 20


async def test_a_batch_whose_results_find_no_room_expires(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    await server.ok("PATCH", "/settings", {"batchRecordSeconds": 7.99 * 3600})
    organization = server.seeded()
    batch = await create(organization, [record(str(number), "x" * 3 * MIB) for number in range(3)])
    resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (8 * MIB, resource.RLIM_INFINITY))
    await server.advance(24 * 3600 + 120)
    assert "waits for its files" in server.log
    shown = await batch_of(organization, batch["id"])
    assert (shown["status"], shown["request_counts"]) == ("expired", {"total": 3, "completed": 2, "failed": 0})
    (left,) = await errors(organization, shown)
    assert (left["custom_id"], left["error"]["code"]) == ("2", "batch_expired")


def in_pieces(size: int) -> Iterator[bytes]:
    """The body of an upload of so many bytes."""
    head, tail = multipart(b"SPLIT").split(b"SPLIT")
    yield head
    line = jsonl([record("x" * 100)])
    block = line * (MIB // len(line))
    for _ in range(size // len(block)):
        yield block
    yield b"x" * (size % len(block))
    yield tail


async def upload_pieces(organization: Organization, size: int) -> Any:
    """Status and body of a streamed upload."""

    async def body() -> Any:
        for piece in in_pieces(size):
            yield piece

    headers = {
        "Authorization": f"Bearer {organization.api_key}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    }
    url = organization.server.ready["inferenceUrl"] + "/v1/files"
    async with aiohttp.ClientSession() as session, session.post(url, data=body(), headers=headers) as reply:
        return reply.status, await reply.json()


def peak_memory(server: Server) -> int:
    """The most bytes that were resident so far."""
    status = Path(f"/proc/{server.child.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


@pytest.mark.parametrize("size", [20 * MIB, pytest.param(LIMIT, marks=pytest.mark.long)])
async def test_uploads_and_downloads_need_no_memory(start_server: StartServer, size: int) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    _, small = await upload_pieces(server.seeded(), MIB)
    await content(server.seeded(), small["id"])  # what is loaded for any upload and download is there
    before = peak_memory(server)
    status, file = await upload_pieces(server.seeded(), size)
    assert (status, file["bytes"]) == (200, size)
    assert len(await content(server.seeded(), file["id"])) == size
    assert peak_memory(server) - before < 16 * MIB


async def test_a_file_over_the_limit_is_413_once_it_was_sent(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server("--state", str(tmp_path / "state"), "--clock", "frozen")
    status, body = await upload_pieces(server.seeded(), LIMIT + 1)
    assert (status, body["error"]["code"]) == (413, "payload_too_large")
    assert list((tmp_path / "state" / "files").iterdir()) == []
    status, _ = await upload_pieces(server.seeded(), LIMIT)
    assert status == 200


async def test_an_upload_that_does_not_end_is_413_and_no_longer_read(organization: Organization) -> None:
    address = urlsplit(organization.server.ready["inferenceUrl"])
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(
        f"POST /v1/files HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {organization.api_key}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )

    async def send() -> None:
        for _ in range(LARGEST_UPLOAD // MIB + 64):
            writer.write(b"%x\r\n%s\r\n" % (MIB, b"x" * MIB))
            await writer.drain()

    sending = asyncio.create_task(send())
    assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
    sending.cancel()
    writer.transport.abort()


def below(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def test_ephemeral_files_are_gone_with_the_process(tmp_path: Path) -> None:
    server = Server(("--ephemeral",), environment={"TMPDIR": str(tmp_path)})  # none that another test has started
    server.start()
    try:
        await upload(server.seeded(), b"x")
        assert len(below(tmp_path)) == 2  # its folder, and in it the file
        assert await asyncio.to_thread(server.stop) == 0
    finally:
        server.kill()
    assert below(tmp_path) == []
