"""Whoever has no key shares one turn with all others, at control too; people who may use control have another."""

from __future__ import annotations

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from relay_localcloud.control.access import ControlAccess
from relay_localcloud.http.exchange import Exchange, attach
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.turns import CONTROL, REFUSED, FairTurns, Turns

TOKEN = "t0ken"


class Watched(Turns):
    """Turns, and whose they were."""

    def __init__(self) -> None:
        super().__init__()
        self.lanes: list[str] = []

    async def of(self, lane: str) -> None:
        self.lanes.append(lane)
        await super().of(lane)


async def asked(path: str, principal: Principal | None = None, *, token: str = "") -> tuple[list[str], int]:
    """Whose turns a request takes, and the status of its answer."""
    turns, sent = Watched(), list[Message]()

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"authorization", f"Bearer {token}".encode())]
    scope: Scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "client": ("192.0.2.1", 1)}
    attach(scope, Exchange(None, {}, principal))
    await ControlAccess(FairTurns(PlainTextResponse(), turns), turns, anywhere=False, token=TOKEN)(scope, receive, send)
    return turns.lanes, sent[0]["status"]


@pytest.mark.parametrize("path", ["/_localcloud/export", "/_localcloud", "/", "/console/clock"])
async def test_whoever_may_not_use_control_takes_the_turn_of_all_who_are_refused(path: str) -> None:
    assert await asked(path, token="guessed") == ([REFUSED], 401)
    assert await asked(path, token=TOKEN) == ([CONTROL], 200)


@pytest.mark.parametrize("path", ["/openapi.json", "/nothing"])
async def test_what_needs_no_key_takes_the_turn_of_all_who_have_none(path: str) -> None:
    assert await asked(path) == ([REFUSED], 200)


async def test_a_key_takes_its_organizations_turn() -> None:
    assert await asked("/v1/whoami", Principal("api_key", "org_1", frozenset())) == (["org_1"], 200)
