"""Control's long lists are read and sent a piece at a time, so that others are served between two."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.server import connections

if TYPE_CHECKING:
    from tests.localcloud.conftest import StartServer
    from tests.localcloud.support.server import Server

COUNT = 2_500
IN_A_PIECE = 1_000


async def _pieces(server: Server, path: str) -> tuple[list[Any], list[int]]:
    """The items, and how many of them came in each piece, as HTTP has it."""
    pieces = [b""]
    async with connections() as session, session.get(server.ready["controlUrl"] + path) as reply:
        async for data, is_whole in reply.content.iter_chunks():
            pieces[-1] += data
            pieces += [b""] if is_whole else []
    items: list[Any] = json.loads(b"".join(pieces))["items"]
    return items, [count for piece in pieces if (count := piece.count(b'"organizationId":'))]


async def test_letters_and_deliveries_come_in_pieces_the_oldest_first(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    document = await server.ok("GET", "/export")
    letter = {"at": 0, "organization_id": organization.id, "recipient": "a@example.com", "subject": "s", "body": "b"}
    attempt = {"delivery_id": "whd_1", "webhook_id": "wh_1", "organization_id": organization.id, "attempt": 1}
    result = {"event_type": "vm.running", "status_code": 200, "error": None, "fault_id": None, "duration_ms": 1}
    numbers = range(1, COUNT + 1)
    document["tables"]["outbox"] = [{**letter, "sequence": number, "body": str(number)} for number in numbers]
    document["tables"]["webhook_attempts"] = [
        {**attempt, **result, "sequence": number, "id": f"wha_{number}", "requested_at": number} for number in numbers
    ]
    await server.ok("POST", "/import", document)
    letters, in_pieces = await _pieces(server, "/outbox")
    assert [letter["body"] for letter in letters] == [str(number) for number in numbers]
    assert in_pieces == [IN_A_PIECE, IN_A_PIECE, COUNT - 2 * IN_A_PIECE]
    deliveries, in_pieces = await _pieces(server, f"/deliveries?organizationId={organization.id}")
    assert [delivery["id"] for delivery in deliveries] == [f"wha_{number}" for number in numbers]
    assert in_pieces == [IN_A_PIECE, IN_A_PIECE, COUNT - 2 * IN_A_PIECE]
    assert await _pieces(server, "/deliveries?organizationId=org_none") == ([], [])


async def test_requests_come_in_pieces_the_oldest_first(start_server: StartServer) -> None:
    server = start_server("--ephemeral", "--clock", "frozen")
    organization = server.seeded()
    for _ in range(11):
        await asyncio.gather(*(organization.ok("GET", "/v1/whoami") for _ in range(100)))
    items, in_pieces = await _pieces(server, "/requests")
    assert [item["seq"] for item in items] == list(range(1, 1101))
    assert in_pieces == [IN_A_PIECE, 100]
