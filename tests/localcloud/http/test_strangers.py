"""Whoever has no key shares one turn with all others, at control too; people who may use control have another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.control.access import ControlAccess
from relay_localcloud.http.exchange import Exchange, attach
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.turns import CONTROL, REFUSED, FairTurns, Turns

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKEN = "t0ken"
ANSWERS = PlainTextResponse()


class Watched(Turns):
    """Turns, and whose they were."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[str] = []

    async def of(self, lane: str) -> None:
        self.lanes.append(lane)
        await super().of(lane)


async def asked(
    path: str,
    principal: Principal | None = None,
    *,
    token: str = "",
    body: Sequence[bytes] = (b"",),
    app: ASGIApp = ANSWERS,
) -> tuple[list[str], int]:
    """Whose turns a request with these pieces of a body takes, and the status of its answer."""
    turns, sent, pieces = Watched(), list[Message](), list(body)

    async def receive() -> Message:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": ("192.0.2.1", 1)}
    attach(scope, Exchange(None, {}, principal))
    await ControlAccess(FairTurns(app, turns), turns, anywhere=False, token=TOKEN)(scope, receive, send)
    return turns.lanes, sent[0]["status"]


@pytest.mark.parametrize("path", ["/_localcloud/export", "/_localcloud", "/", "/console/clock"])
async def test_whoever_may_not_use_control_takes_the_turn_of_all_who_are_refused(path: str) -> None:
    assert await asked(path, token="guessed") == ([REFUSED], 401)
    assert await asked(path, token=TOKEN) == ([CONTROL], 200)


@pytest.mark.parametrize("path", ["/openapi.json", "/nothing"])
async def test_what_needs_no_key_takes_the_turn_of_all_who_have_none(path: str) -> None:
    assert await asked(path) == ([REFUSED], 200)


async def test_a_key_takes_its_organizations_turn() -> None:
    assert await asked("/v1/whoami", Principal("api_key", "org_1", ())) == (["org_1"], 200)


async def test_a_person_without_an_organization_takes_a_turn_of_their_own() -> None:
    person = Principal("user", "", (), name="user_1")
    assert await asked("/v1/orgs", person) == (["user_1"], 200)


async def test_each_piece_of_a_body_takes_a_turn_if_another_follows() -> None:
    async def app(_: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, True, False):
            await send({"type": "http.response.body", "body": b"a", "more_body": more})

    key, (begins, comes, goes) = Principal("api_key", "org_1", ()), (1, 2, 2)
    taken = await asked("/v1/files", key, body=[b"a", b"b", b"c"], app=app)
    assert taken == (["org_1"] * (begins + comes + goes), 200)
