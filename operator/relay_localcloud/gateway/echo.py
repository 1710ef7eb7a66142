"""The answer for workloads whose image has no upstream: an echo of method, path, headers and body."""

import codecs
import json
import tempfile
from collections.abc import Iterator
from typing import IO, Final

from aiohttp import web
from multidict import CIMultiDict

from relay_localcloud.gateway.answers import Streamed, json_answer
from relay_localcloud.gateway.forwarding import Body
from relay_localcloud.gateway.passages import Passage
from relay_localcloud.http.errors import ApiError

LARGEST_BODY: Final = 256 * 1024 * 1024
_IN_MEMORY: Final = 1024 * 1024
_PIECE: Final = 64 * 1024


async def echo(passage: Passage, path: str, headers: CIMultiDict[str]) -> web.StreamResponse:
    """Answer `{"method", "path", "headers", "body"}`: what the workload would get, with header names in lowercase.

    The answer follows the whole body, since many clients read nothing earlier; a body over 1 MiB waits on the disk.
    ApiError 413 for a body over 256 MiB.
    """
    request = passage.request
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as kept:
        async for piece in Body(passage).pieces():
            if kept.tell() + len(piece) > LARGEST_BODY:
                raise ApiError(
                    413, f"The echo takes up to {LARGEST_BODY} bytes: POST /_localcloud/upstreams takes more."
                )
            kept.write(piece)
        size = kept.tell()
        kept.seek(0)
        if size <= _IN_MEMORY:
            return json_answer(b"".join(_json(request.method, path, headers, kept)))
        response = Streamed(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if request.method != "HEAD":
            for piece in _json(request.method, path, headers, kept):
                await response.write(piece)
        return response


def _json(method: str, path: str, headers: CIMultiDict[str], body: IO[bytes]) -> Iterator[bytes]:
    named = {name.lower(): ", ".join(headers.getall(name)) for name in headers}
    head = json.dumps({"method": method, "path": path, "headers": named, "body": ""})
    yield head.removesuffix('"}').encode()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while piece := body.read(_PIECE):
        yield _escaped(decoder.decode(piece))
    yield _escaped(decoder.decode(b"", final=True)) + b'"}'


def _escaped(text: str) -> bytes:
    return json.dumps(text)[1:-1].encode()
