"""What the cloud keeps of the past, which it does while a fault reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.localcloud.support.server import Server


async def keep_the_past(server: Server) -> str:
    """From here on what changes can be read as it was; the id of a fault that meets nobody."""
    fault = {"operation": "GET /v1/whoami", "organizationId": "org_of_nobody", "effect": {"staleSeconds": 1}}
    made: dict[str, Any] = await server.ok("POST", "/faults", fault)
    return str(made["id"])
