"""Files (assumed: OpenAI's paths; section 4, "Unlisted operations")."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated

from pydantic import Field
from sqlalchemy import ColumnElement
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from relay_localcloud.batches import file_rows, ranges, rows, upload
from relay_localcloud.batches.access import BatchCaller
from relay_localcloud.batches.listing import ListingRequest
from relay_localcloud.batches.multipart import MultipartError, boundary_of
from relay_localcloud.batches.storage import pieces
from relay_localcloud.batches.tables import files
from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.bodies import answer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId
from relay_localcloud.http.routing import Router
from relay_localcloud.inference.errors import InferenceError
from relay_localcloud.kernel.store import Tx
from relay_wire.files import INPUT, FileDeleted, FileList, FileObject

router = Router("Files")


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
    settings = cloud.store.settings
    most = settings.max_concurrent_uploads
    body = upload.unstalled(request.stream(), settings.stalled_body_seconds)
    with cloud.uploads.one_more(caller.organization_id, most) as admitted, upload.needing_room():
        if admitted:
            return await _receive(caller.organization_id, request.headers.get("content-type", ""), body, cloud)
        await upload.drain(body)
    raise ApiError(429, f"{most} uploads are under way already: try again shortly.", headers={"Retry-After": "1"})


async def _receive(organization_id: str, content_type: str, body: AsyncIterator[bytes], cloud: Cloud) -> Response:
    try:
        boundary = boundary_of(content_type)
    except MultipartError as error:
        await upload.drain(body)
        raise ApiError(400, f"Nothing was uploaded: {error}.") from None
    with cloud.store.transaction() as tx:
        file_id = tx.new_id("file")
    received = await upload.receive(cloud.files, file_id, boundary, body)
    with cloud.store.transaction() as tx:
        row = file_rows.keep(tx, organization_id, file_id, received.filename, INPUT, received.size)
    return answer(file_rows.shown(row))


@router.get("/v1/files", response_model=FileList, summary="List files", openapi_extra=ASSUMED)
def list_files(
    caller: BatchCaller,
    listing: ListingRequest,
    purpose: Annotated[str | None, Query(), Field(description="Only files with this purpose.")] = None,
    *,
    tx: Tx,
) -> dict[str, object]:
    """Answers a page, newest first."""
    conditions: list[ColumnElement[bool]] = [files.c.deleted_at.is_(None)]
    if purpose is not None:
        conditions.append(files.c.purpose == purpose)
    return listing.of(tx, files, caller.organization_id, file_rows.shown, *conditions)


@router.get("/v1/files/{id}", response_model=FileObject, summary="Get a file", openapi_extra=ASSUMED)
def get_file(caller: BatchCaller, file_id: ResourceId, tx: Tx) -> dict[str, object]:
    """Answers the file object."""
    return file_rows.shown(file_rows.find(tx, caller.organization_id, file_id))


@router.delete("/v1/files/{id}", response_model=FileDeleted, summary="Delete a file", openapi_extra=ASSUMED)
def delete_file(caller: BatchCaller, file_id: ResourceId, cloud: CurrentCloud, tx: Tx) -> dict[str, object]:
    """Removes its content; 409 while a live batch reads it."""
    file_rows.find(tx, caller.organization_id, file_id)
    if rows.is_input_of_live_batch(tx, file_id):
        raise ApiError(409, f"The file {file_id!r} is the input of a batch that has not ended.")
    file_rows.delete(tx, file_id)
    tx.after_commit(lambda: cloud.files.discard(file_id))
    return {"id": file_id, "object": "file", "deleted": True}


@router.get(
    "/v1/files/{id}/content",
    summary="Download a file",
    openapi_extra=ASSUMED,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        206: {"description": "The bytes that the Range header asks for.", "content": {"application/octet-stream": {}}},
    },
)
async def get_content(caller: BatchCaller, file_id: ResourceId, request: Request, cloud: CurrentCloud) -> Response:
    """Answers the bytes, or those of a single range."""
    with cloud.store.transaction() as tx:
        row = file_rows.find(tx, caller.organization_id, file_id)
    etag, size = f'"{file_id}"', int(row["bytes"])
    asked = request.headers.get("range") if request.headers.get("if-range", etag) == etag else None
    try:
        chosen = ranges.requested(asked, size)
    except ranges.UnsatisfiableError as error:
        headers = {"Content-Range": f"bytes */{size}"}
        raise InferenceError(416, "invalid_request_error", None, f"Range: {error}.", headers) from None
    headers = {"Accept-Ranges": "bytes", "ETag": etag}
    if chosen is not None:
        headers["Content-Range"] = f"bytes {chosen.start}-{chosen.stop - 1}/{size}"
    sent = chosen if chosen is not None else range(size)
    headers["Content-Length"] = str(len(sent))
    body = pieces(cloud.files.read(file_id, sent.start), len(sent))
    status = 200 if chosen is None else 206
    return StreamingResponse(_each(body), status, headers, "application/octet-stream")


async def _each(body: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in body:
        yield piece
