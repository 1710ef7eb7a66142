"""Control requests that nobody means: none of them fails."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from tests.localcloud.support.everything import Everything, Operation, everything
from tests.localcloud.support.server import request
from tests.localcloud.support.strange import LARGEST, Strange

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer

_ROUNDS: Final = 10
_LEFT_OUT: Final = "/_localcloud/reset"


async def _named(known: Everything, operation: Operation) -> dict[str, str]:
    """What stands in the path: something that there is, if the operation is about one."""
    template = operation.template
    if "{orgId}" in template:
        return {"orgId": known.organization.id}
    if "/nodes/" in template:
        return {"id": known.node}
    if "/workloads/" in template:
        return {"id": await known.value("/v1/vms/{id}", {"orgId": known.organization.id})}
    return {"id": "none"}


async def test_no_control_request_fails(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    known = await everything(server)
    seed = random.randrange(10**6)
    strange = Strange(known.document, random.Random(seed))
    operations = [
        Operation(method.upper(), template, description, server.url)
        for template, methods in known.document["paths"].items()
        for method, description in methods.items()
        if template.startswith("/_localcloud/") and template != _LEFT_OUT
    ]
    paths = {operation.name: await _named(known, operation) for operation in operations}
    for operation in operations * _ROUNDS:
        path = {name: strange.segment(value) for name, value in paths[operation.name].items()}
        query = "&".join(f"{name}={value}" for name, value in strange.query(operation).items())
        body = (
            strange.body(operation, None, LARGEST["managementUrl"]) if operation.method in {"POST", "PATCH"} else None
        )
        url = operation.url + operation.template.format(**path) + (f"?{query}" if query else "")
        answer = await request(operation.method, url, raw=body)
        assert answer.status < 500, (seed, operation.name, path, query, body and body[:500], answer.status, answer.raw)
        if operation.template.endswith("/faults"):
            await server.control("DELETE", "/faults")
    assert "Traceback" not in server.log, seed
