"""Files through the client against the local cloud: streamed both ways, through faults, and what is refused."""

import asyncio
import hashlib
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from relay_client import (
    BadRequest,
    Cloud,
    CloudError,
    CloudUnavailable,
    NotFound,
    Outcome,
    RateLimited,
    TooLarge,
    Truncated,
    Unauthorized,
    files,
)
from relay_client.operations import DELETE_FILE, GET_FILE
from relay_wire.files import BATCH_UPLOAD_LIMIT
from tests.localcloud_client.batches import downloaded, record, records
from tests.localcloud_client.conftest import POLICY
from tests.support.localcloud import Control, Organization

UPLOAD = "POST /v1/files"
CONTENT = "GET /v1/files/{id}/content"
CHUNK = bytes(range(256)) * 400  # line ends of every kind, boundaries' dashes, no UTF-8


class Stream:
    """Chunks without an end to hold on to: `size` bytes in all, hashed as they go."""

    def __init__(self, size: int) -> None:
        self._left = size
        self.hash = hashlib.sha256()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._left == 0:
            raise StopAsyncIteration
        chunk = CHUNK[: self._left]
        self._left -= len(chunk)
        self.hash.update(chunk)
        return bytes(bytearray(chunk))


async def names(cloud: Cloud) -> list[str | None]:
    return [file.filename async for file in files(cloud)]


async def test_a_file_of_20_mb_goes_up_and_down_in_a_few_pieces_of_memory(cloud: Cloud) -> None:
    source = Stream(20_000_000)
    await cloud.upload("first", records(1))  # what is made once is made
    tracemalloc.start()
    stored = await cloud.upload("input.jsonl", source)
    _, most_going_up = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    read, size = hashlib.sha256(), 0
    async with cloud.download(stored.id) as pieces:
        async for piece in pieces:
            read.update(piece)
            size += len(piece)
    _, most_going_down = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (stored.bytes, size) == (20_000_000, 20_000_000)
    assert read.digest() == source.hash.digest()
    assert most_going_up < 3_000_000
    assert most_going_down < 3_000_000


async def test_a_file_is_found_by_its_name_read_and_deleted(cloud: Cloud) -> None:
    stored = await cloud.upload("input ü.jsonl", records(3))
    assert (stored.filename, stored.purpose) == ("input ü.jsonl", "batch")
    assert (await cloud.call(GET_FILE, id=stored.id)).filename == stored.filename
    assert await names(cloud) == [stored.filename]
    assert await downloaded(cloud, stored.id) == b"".join(record(n) for n in range(3))
    assert (await cloud.call(DELETE_FILE, id=stored.id)).deleted
    for call in (cloud.call(GET_FILE, id=stored.id), cloud.call(DELETE_FILE, id=stored.id)):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound):
        await downloaded(cloud, stored.id)
    assert await names(cloud) == []


async def test_files_are_listed_page_by_page_newest_first(cloud: Cloud) -> None:
    made = [(await cloud.upload(f"{n}.jsonl", records(1))).filename for n in range(5)]
    assert [file.filename async for file in files(cloud, limit=2)] == made[::-1]


async def test_a_file_is_read_from_an_offset(cloud: Cloud) -> None:
    stored = await cloud.upload("input.jsonl", records(100))
    content = await downloaded(cloud, stored.id)
    async with cloud.download(stored.id, offset=1000) as pieces:
        assert b"".join([piece async for piece in pieces]) == content[1000:]
    async with cloud.download(stored.id, offset=len(content)) as pieces:
        assert [piece async for piece in pieces] == []
    with pytest.raises(BadRequest, match=f"it ends at {len(content)}"):
        async with cloud.download(stored.id, offset=len(content) + 1):
            pass


@pytest.mark.parametrize("effect", [{"truncateBytes": 70_001}, {"drop": "after"}, {"status": 502}, {"status": 429}])
async def test_a_download_survives_trouble_that_passes(
    effect: dict[str, object], cloud: Cloud, control: Control, organization: Organization
) -> None:
    source = Stream(300_000)
    stored = await cloud.upload("input.jsonl", source)
    await control.fault(CONTENT, effect, organizationId=organization.id, count=2)
    content = await downloaded(cloud, stored.id)
    assert hashlib.sha256(content).digest() == source.hash.digest()
    asked = await control.requests(organization=organization)
    assert len([request for request in asked if request["operation"] == CONTENT]) == 3


async def test_a_download_that_is_always_cut_is_an_error(
    cloud: Cloud, control: Control, organization: Organization
) -> None:
    stored = await cloud.upload("input.jsonl", records(100))
    await control.fault(CONTENT, {"truncateBytes": 0}, organizationId=organization.id)
    with pytest.raises(Truncated):
        await downloaded(cloud, stored.id)


@pytest.mark.parametrize(
    ("effect", "error", "outcome", "exists"),
    [
        ({"drop": "after"}, CloudUnavailable, Outcome.UNKNOWN, True),
        ({"drop": "before"}, CloudUnavailable, Outcome.UNKNOWN, False),
        ({"truncateBytes": 9}, Truncated, Outcome.UNKNOWN, True),
        ({"status": 503}, CloudUnavailable, Outcome.UNKNOWN, False),
        ({"status": 413}, TooLarge, Outcome.REJECTED, False),
        ({"status": 429, "headers": {"Retry-After": "2"}}, RateLimited, Outcome.REJECTED, False),
    ],
    ids=str,
)
async def test_an_upload_that_fails_says_whether_the_file_may_exist(
    effect: dict[str, object],
    error: type[CloudError],
    outcome: Outcome,
    exists: bool,
    cloud: Cloud,
    control: Control,
    organization: Organization,
) -> None:
    await control.fault(UPLOAD, effect, organizationId=organization.id, count=1)
    with pytest.raises(error) as caught:
        await cloud.upload("the intent's.jsonl", Stream(1_000_000))
    assert caught.value.outcome is outcome
    assert await names(cloud) == (["the intent's.jsonl"] if exists else [])


async def test_what_the_source_raises_leaves_no_file(cloud: Cloud) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield CHUNK
        raise LookupError("the bucket is gone")

    with pytest.raises(LookupError, match="the bucket is gone"):
        await cloud.upload("input.jsonl", broken())
    assert await names(cloud) == []


async def test_an_upload_over_the_limit_is_too_large(cloud: Cloud) -> None:
    with pytest.raises(TooLarge) as caught:
        await cloud.upload("input.jsonl", Stream(BATCH_UPLOAD_LIMIT + 1))
    assert (caught.value.status, caught.value.outcome) == (413, Outcome.REJECTED)
    assert await names(cloud) == []


async def test_too_many_uploads_at_once_are_refused_and_the_others_stored(cloud: Cloud, control: Control) -> None:
    before = (await control.settings())["maxConcurrentUploads"]
    await control.settings(maxConcurrentUploads=1)
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield CHUNK
        begun.set()
        await may_end.wait()

    first = asyncio.ensure_future(cloud.upload("first", slow()))
    try:
        await begun.wait()
        assert await names(cloud) == []  # the cloud has also come to the upload, which was there before
        with pytest.raises(RateLimited) as caught:
            await cloud.upload("second", records(1))
    finally:
        may_end.set()
        await control.settings(maxConcurrentUploads=before)
    assert caught.value.outcome is Outcome.REJECTED
    assert (await first).filename == "first"
    assert await names(cloud) == ["first"]


async def test_a_key_that_is_not_known_does_not_upload(organization: Organization, inference_url: str) -> None:
    url = organization.management_url
    async with Cloud(url, "or_never_issued_0123456789", inference_url=inference_url, policy=POLICY) as cloud:
        with pytest.raises(Unauthorized) as caught:
            await cloud.upload("input.jsonl", Stream(20_000_000))
    assert (caught.value.code, caught.value.error_type) == ("invalid_api_key", "authentication_error")
