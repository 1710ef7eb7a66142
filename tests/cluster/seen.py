"""What people can see of objects: no secret may be in it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp

if TYPE_CHECKING:
    from tests.support.operator import Operator
    from tests.support.workspace import Workspace


async def seen_of(workspace: Workspace, operator: Operator, kind: str) -> str:
    """The objects of a kind, with the present Events, the operator's log and its metrics."""
    objects = [*await workspace.kube.list(kind), *await workspace.kube.list("Event")]
    async with aiohttp.ClientSession() as session, session.get(f"{operator.metrics_url}/metrics") as answer:
        metrics = await answer.text()
    assert metrics
    return json.dumps(objects) + operator.log.read_text(errors="replace") + metrics
