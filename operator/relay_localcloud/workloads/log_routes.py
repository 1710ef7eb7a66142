"""Logs of VMs and pods as text; the path is assumed. A pod's log is its container's output, and empty without one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, NoReturn

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.authentication import bearer
from relay_localcloud.http.connections import ABORT
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId, VmReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.workloads import vm_logs, workloads
from relay_localcloud.workloads.followers import Follower
from relay_wire.pods import PodStatus

router = Router("VMs and pods")

Tail = Annotated[int | None, Query(), Field(ge=0, le=10_000, description="Only so many lines from the end.")]
Follow = Annotated[bool, Query(), Field(description="Go on with new lines until it is terminated.")]


@router.get(
    "/v1/vms/{id}/logs",
    summary="The log of a VM or pod",
    openapi_extra=ASSUMED,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_log(
    caller: VmReader,
    request: Request,
    workload_id: ResourceId,
    cloud: CurrentCloud,
    tail: Tail = None,
    follow: Follow = False,
) -> Response:
    """Answers lines that begin with their instant: what a pod's container prints, until it ends if they are followed;
    of a VM boots, `cloudInit` and health checks, with the source.
    """
    with cloud.store.transaction() as tx:
        workload = workloads.visible(tx, caller, workload_id)
        lines = vm_logs.lines_of(tx, workload_id)
    follower = Follower(caller, bearer(request.headers), workload) if follow else None
    if cloud.containers is not None:
        content = cloud.containers.log(workload.organization_id, workload_id, tail=tail, follow=follow)
        if follower is not None:
            content = _printed(cloud, follower, content)
    else:
        text = _text(lines if tail is None else lines[max(0, len(lines) - tail) :])
        if follower is None:
            return Response(text, media_type="text/plain")
        content = _written(cloud, follower, text, lines[-1].sequence if lines else 0)
    begun = _begun(await anext(content, b""), content, request.scope["extensions"][ABORT])
    return StreamingResponse(begun, media_type="text/plain")


async def _begun(first: bytes, rest: AsyncIterator[bytes], abort: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yields an answer that has begun; an error breaks the connection, so that nobody takes a part for the whole."""
    yield first
    try:
        async for piece in rest:
            yield piece
    except ApiError:
        abort()


async def _written(cloud: Cloud, follower: Follower, text: bytes, last: int) -> AsyncIterator[bytes]:
    """Yields a simulated log, and its new lines until its workload is terminated. Raises ApiError."""
    with cloud.followers.with_one_more(follower):
        yield text
        while True:
            workload = cloud.followers.admitted(follower)
            with cloud.store.transaction() as tx:
                lines = vm_logs.lines_of(tx, workload.id, after=last)
            if lines:
                last = lines[-1].sequence
                yield _text(lines)
            if workload.status is PodStatus.TERMINATED:
                return
            await cloud.followers.news_of(follower)


async def _printed(cloud: Cloud, follower: Follower, output: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yields a container's output while its follower is admitted. Raises ApiError."""
    with cloud.followers.with_one_more(follower):
        yield b""  # begins the answer: only from then on is it known that a client has left
        watching = asyncio.ensure_future(_watched(cloud, follower))
        reading = asyncio.ensure_future(anext(output, None))
        try:
            while True:
                await asyncio.wait((watching, reading), return_when=asyncio.FIRST_COMPLETED)
                if watching.done():
                    watching.result()
                piece = reading.result()
                if piece is None:
                    return
                yield piece
                reading = asyncio.ensure_future(anext(output, None))
        finally:
            watching.cancel()
            reading.cancel()
            await asyncio.gather(watching, reading, return_exceptions=True)


async def _watched(cloud: Cloud, follower: Follower) -> NoReturn:
    """Raises ApiError once the follower is not admitted any more."""
    while True:
        await cloud.followers.news_of(follower)
        cloud.followers.admitted(follower)


def _text(lines: list[vm_logs.Line]) -> bytes:
    return "".join(f"{timestamp(line.at)} {line.source}: {line.line}\n" for line in lines).encode()
