"""Logs of VMs and pods as text; the path is assumed. A pod's log is its container's output, and empty without one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final

from pydantic import Field
from starlette.responses import Response, StreamingResponse

from relay_localcloud.cloud import Cloud, CurrentCloud
from relay_localcloud.http.arguments import Query
from relay_localcloud.http.openapi import ASSUMED
from relay_localcloud.http.principal import ResourceId, VmReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.workloads import vm_logs, workloads
from relay_wire.pods import PodStatus

router = Router("VMs and pods")

LOOK_SECONDS: Final = 0.1
"""The real seconds after which a follower looks for changes."""

Tail = Annotated[int | None, Query(), Field(ge=0, le=10_000, description="Only so many lines from the end.")]
Follow = Annotated[bool, Query(), Field(description="Go on with new lines until it is terminated.")]


@router.get(
    "/v1/vms/{id}/logs",
    summary="The log of a VM or pod",
    openapi_extra=ASSUMED,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_log(
    caller: VmReader, workload_id: ResourceId, cloud: CurrentCloud, tail: Tail = None, follow: Follow = False
) -> Response:
    """Answers lines that begin with their instant: what a pod's container prints, until it ends if they are followed;
    of a VM boots, `cloudInit` and health checks, with the source.
    """
    with cloud.store.transaction() as tx:
        workload = workloads.visible(tx, caller, workload_id)
        lines = vm_logs.lines_of(tx, workload_id)
    if cloud.containers is not None:
        printed = cloud.containers.log(workload.organization_id, workload_id, tail=tail, follow=follow)
        return StreamingResponse(_begun(await anext(printed, b""), printed), media_type="text/plain")
    shown = lines if tail is None else lines[max(0, len(lines) - tail) :]
    text = _text(shown)
    if not follow:
        return Response(text, media_type="text/plain")
    last = lines[-1].sequence if lines else 0
    return StreamingResponse(_followed(cloud, workload_id, text, last), media_type="text/plain")


async def _begun(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _followed(cloud: Cloud, workload_id: str, text: str, last: int) -> AsyncIterator[str]:
    yield text
    while True:
        seen = cloud.store.revision
        with cloud.store.transaction() as tx:
            workload = workloads.find(tx, workload_id)
            lines = vm_logs.lines_of(tx, workload_id, after=last)
        if lines:
            last = lines[-1].sequence
            yield _text(lines)
        if workload is None or workload.status is PodStatus.TERMINATED:
            return
        while cloud.store.revision == seen:  # noqa: ASYNC110 - nobody is told of a revision
            await asyncio.sleep(LOOK_SECONDS)


def _text(lines: list[vm_logs.Line]) -> str:
    return "".join(f"{timestamp(line.at)} {line.source}: {line.line}\n" for line in lines)
