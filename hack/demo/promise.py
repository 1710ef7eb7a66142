"""The demo's second act: the operator is killed during a create, and nothing is created twice or lost."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from hack.demo.happenings import Happening, Source, Tone, objects, unfinished
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.manifests import gpu_cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hack.demo.stage import Stage

NAME = "survivor"
CREATE = "POST /v1/orgs/{orgId}/clusters/create"
_LIST = "GET /v1/orgs/{orgId}/clusters"
_TICK = 0.05


class PromiseError(Exception):
    """A step of the second act did not happen in time; the text says which."""


async def keep(stage: Stage, tell: Callable[[Happening], None], tick: Callable[[], Awaitable[None]]) -> int:
    """Runs the act and returns how many clusters the cloud created: one, if the promise holds.

    `tick` prints what happens meanwhile. Raises PromiseError if a step takes longer than PATIENCE_SECONDS.
    """
    control = stage.cloud.control
    start = max([0, *(item["seq"] for item in await control.requests())])
    await control.fault(CREATE, {"drop": "after"}, count=1)
    # If the list answered, the operator could find the cluster before it is killed.
    await control.fault(_LIST, {"status": 503})
    await stage.kube.apply(gpu_cluster(NAME, replicas=1, model="a100"), "kubectl")
    await _until(stage, tick, lambda: _created(stage, start), "the operator asked the cloud for it")
    await stage.operator.kill()
    await control.clear_faults()
    tell(
        Happening(
            Source.CALL, "is dead", "SIGKILL; the cloud had created the cluster, its answer never arrived", Tone.BAD
        )
    )
    await stage.operator.start()
    tell(Happening(Source.CALL, "is back", "and finds an open create intent on the object: it looks before it writes"))
    await _until(stage, tick, lambda: _is_ready(stage), f"GpuCluster {NAME} is ready")
    return await _created(stage, start)


async def clear_away(stage: Stage, tick: Callable[[], Awaitable[None]]) -> None:
    """Deletes the act's object and returns once it is gone, which is after the cloud has deleted the cluster."""
    await stage.kube.delete("GpuCluster", NAME)
    await _until(stage, tick, lambda: _is_gone(stage), f"GpuCluster {NAME} is gone")


async def _is_gone(stage: Stage) -> bool:
    return await stage.kube.find("GpuCluster", NAME) is None


async def _created(stage: Stage, after: int) -> int:
    items = await stage.cloud.control.requests(after=after)
    return sum(item["operation"] == CREATE and item["status"] in {200, 201} for item in items)


async def _is_ready(stage: Stage) -> bool:
    mine = [item for item in await objects(stage) if item["metadata"]["name"] == NAME]
    return bool(mine) and not unfinished(mine)


async def _until(
    stage: Stage, tick: Callable[[], Awaitable[None]], happened: Callable[[], Awaitable[object]], what: str
) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not await happened():
        if time.monotonic() > deadline:
            mine = [item for item in await objects(stage) if item["metadata"]["name"] == NAME]
            raise PromiseError("; ".join([f"not within {PATIENCE_SECONDS:g} s: {what}", *unfinished(mine)]))
        await tick()
        await asyncio.sleep(_TICK)
    await tick()
