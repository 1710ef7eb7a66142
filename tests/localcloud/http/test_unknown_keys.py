"""Keys that nobody has are looked up one after another: a flood of them delays nobody who is known."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import PlainTextResponse

from relay_localcloud.http import authentication
from relay_localcloud.http.authentication import Authentication, bearer
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.exchange import Exchange, attach
from relay_localcloud.http.principal import Principal
from relay_localcloud.http.turns import Turns
from relay_localcloud.kernel.store import Store

if TYPE_CHECKING:
    import pytest
    from starlette.types import Message, Receive, Scope, Send

    from relay_localcloud.kernel.store import Tx

GOOD = ("good", "another", "third")


class Gate:
    """The layer above an application that only answers."""

    def __init__(self) -> None:
        self.looked_up: list[str] = []
        self.passed: list[str] = []
        self._layer = Authentication(
            self._answer,
            Store.ephemeral(),
            bearer,
            self._holder,
            lambda error, _: PlainTextResponse(error.message, error.status),
            Turns(),
        )

    def _holder(self, tx: Tx, credential: str) -> Principal:
        self.looked_up.append(credential)
        if credential not in GOOD:
            raise ApiError(401, "This API key is not valid.")
        return Principal("api_key", f"org_{credential}", (), name=credential)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.passed.append(dict(scope["headers"])[b"authorization"].decode().partition(" ")[2])

    async def ask(self, credential: str) -> None:
        """One request with this key."""
        scope: Scope = {
            "type": "http",
            "path": "/v1/whoami",
            "headers": [(b"authorization", f"Bearer {credential}".encode())],
        }
        attach(scope, Exchange("GET /v1/whoami", {}))
        await self._layer(scope, _nothing_received, _nobody_reads)


async def _nothing_received() -> Message:
    return {"type": "http.request"}


async def _nobody_reads(message: Message) -> None:
    pass


async def test_who_is_known_waits_for_no_key_that_nobody_has() -> None:
    gate = Gate()
    await gate.ask("good")
    flood = [asyncio.create_task(gate.ask(f"wrong {number}")) for number in range(20)]
    await asyncio.sleep(0)
    await gate.ask("good")
    assert len(gate.looked_up) <= 3
    await asyncio.gather(*flood)
    assert len(gate.looked_up) == 22
    assert gate.passed == ["good", "good"]


async def test_of_the_known_ones_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "KNOWN", 2)
    gate = Gate()
    for credential in GOOD:
        await gate.ask(credential)
    flood = [asyncio.create_task(gate.ask(f"wrong {number}")) for number in range(9)]
    await gate.ask("third")
    assert gate.looked_up[3:] == ["third"]
    await gate.ask("good")
    assert gate.looked_up[-1] == "good", "it waited behind all of them"
    await asyncio.gather(*flood)
