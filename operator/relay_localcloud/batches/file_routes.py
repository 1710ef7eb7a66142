"""Files (assumed: OpenAI's paths; section 4, "Unlisted operations")."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from relay_localcloud.batches import rows, upload
from relay_localcloud.batches.listing import ListingRequest
from relay_localcloud.batches.rows import FILES
from relay_localcloud.batches.storage import pieces
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import answer
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.inference.callers import BatchCaller
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.kernel.store import Tx
from relay_wire.files import INPUT, FileDeleted, FileList, FileObject

router = Router("Files")

_SINGLE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE | re.ASCII)

_TAG = re.compile(r'"[^"]*"')

_UPLOAD = {
    "type": "object",
    "required": ["purpose", "file"],
    "properties": {
        "purpose": {"const": INPUT},
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
    },
}


@router.post(
    "/v1/files",
    response_model=FileObject,
    summary="Upload a file",
    openapi_extra={
        **ASSUMED,
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _UPLOAD}}},
    },
)
async def upload_file(caller: BatchCaller, request: Request, cloud: CurrentCloud) -> Response:
    """Takes multipart/form-data with `purpose` and `file`, up to 200 MB."""
    most, body = cloud.store.settings.max_concurrent_uploads, upload.bounded(request.stream())
    with cloud.uploads.one_more(caller.organization_id, most) as admitted, upload.needing_room():
        if admitted:
            return await _receive(caller.organization_id, request.headers.get("content-type", ""), body, cloud)
        await upload.drain(body)
    raise ApiError(429, f"{most} uploads are under way already: try again shortly.", headers={"Retry-After": "1"})


async def _receive(organization_id: str, content_type: str, body: AsyncIterator[bytes], cloud: Cloud) -> Response:
    try:
        with cloud.store.transaction() as tx:
            rows.require_room(tx, organization_id, 1)
            file_id = tx.new_id("file")
    except ApiError:
        await upload.drain(body)
        raise
    filename, size = await upload.receive(cloud.files, file_id, content_type, body)
    with cloud.files.kept(file_id), cloud.store.transaction() as tx:
        rows.require_room(tx, organization_id, size)
        file = rows.keep_file(tx, organization_id, file_id, filename, INPUT, size)
    return answer(file.as_json())


@router.get("/v1/files", response_model=FileList, summary="List files", openapi_extra=ASSUMED)
def list_files(
    caller: BatchCaller,
    listing: ListingRequest,
    purpose: Annotated[str | None, Query(), Field(description="Only files with this purpose.")] = None,
    *,
    tx: Tx,
) -> dict[str, object]:
    """Answers a page, newest first."""
    wanted = {} if purpose is None else {"purpose": purpose}
    return listing.of(tx, FILES, caller.organization_id, deleted_at=None, **wanted)


@router.get("/v1/files/{id}", response_model=FileObject, summary="Get a file", openapi_extra=ASSUMED)
def get_file(caller: BatchCaller, file_id: ResourceId, tx: Tx) -> dict[str, object]:
    """Answers the file object."""
    return rows.find_file(tx, caller.organization_id, file_id).as_json()


@router.delete("/v1/files/{id}", response_model=FileDeleted, summary="Delete a file", openapi_extra=ASSUMED)
def delete_file(caller: BatchCaller, file_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Removes its content; 409 while a live batch reads it."""
    rows.find_file(tx, caller.organization_id, file_id)
    if rows.is_input_of_live_batch(tx, file_id):
        raise ApiError(409, f"The file {file_id!r} is the input of a batch that has not ended.")
    FILES.change(tx, file_id, deleted_at=tx.now)
    rows.DELETED.one_ended(tx)
    tx.after_commit(lambda: cloud.files.discard(file_id))
    return {"id": file_id, "object": "file", "deleted": True}


@router.get(
    "/v1/files/{id}/content",
    summary="Download a file",
    openapi_extra=ASSUMED,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        304: {"description": "The content that the If-None-Match header names."},
        206: {"description": "The bytes that the Range header asks for.", "content": {"application/octet-stream": {}}},
    },
)
async def get_content(caller: BatchCaller, file_id: ResourceId, request: Request, cloud: CurrentCloud) -> Response:
    """Answers the bytes, or those of a single range."""
    with cloud.store.transaction() as tx:
        size = rows.find_file(tx, caller.organization_id, file_id).bytes
    etag = f'"{file_id}"'
    if _is_known(", ".join(request.headers.getlist("if-none-match")), etag):
        return Response(None, 304, {"ETag": etag})
    asked = request.headers.get("range") if request.headers.get("if-range", etag) == etag else None
    chosen = _range(asked, size)
    if chosen is not None and not chosen:
        headers = {"Content-Range": f"bytes */{size}"}
        raise InferenceError(416, "invalid_request_error", None, f"Range: the content has {size} bytes.", headers)
    headers = {"Accept-Ranges": "bytes", "ETag": etag}
    if chosen is not None:
        headers["Content-Range"] = f"bytes {chosen.start}-{chosen.stop - 1}/{size}"
    sent = chosen if chosen is not None else range(size)
    headers["Content-Length"] = str(len(sent))
    try:
        body = pieces(cloud.files.read(file_id, sent.start), len(sent))
    except FileNotFoundError:  # a stale read has its row still, but contents have no past
        raise not_found("file", file_id) from None
    status = 200 if chosen is None else 206
    return StreamingResponse(_each(body), status, headers, "application/octet-stream")


async def _each(body: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece


def _is_known(header: str, etag: str) -> bool:
    """Whether an If-None-Match header names the content (RFC 9110, section 13.1.2), which never changes."""
    return header.strip() == "*" or etag in _TAG.findall(header)


def _range(header: str | None, size: int) -> range | None:
    """The bytes that a Range header with a single range requests (RFC 9110, section 14); None for all of them.

    An empty range is one outside the content; a header in another form requests all.
    """
    match = None if header is None else _SINGLE.fullmatch(header)
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return range(max(size - int(last), 0), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(int(last) + 1, size) if last else size)
