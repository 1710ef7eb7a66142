"""Fair turns: while many requests wait for the event loop, organizations take turns, whatever number each sends."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.exchange import exchange_of

REFUSED: Final = "refused"
"""The lane of all unknown credentials, and of requests that need none."""
CONTROL: Final = ""

ROUNDS: Final = 3
"""Rounds of the event loop between one waiting request and the next.

An arriving request takes about as many until it begins: so it meets one of those that wait, not one in each round.
"""

_Waiting = asyncio.Future[None]


class Turns:
    """Lets requests begin one after another, one of each lane in turn, on all ports.

    A request that finds its own lane empty begins at once: so a caller with few requests waits little.
    """

    def __init__(self) -> None:
        self._lanes: Final[OrderedDict[str, deque[_Waiting]]] = OrderedDict()
        self._began: Final[set[str]] = set()  # since the last beat
        self._beats = False

    async def of(self, lane: str) -> None:
        """Return when it is the turn of a request of this lane."""
        loop = asyncio.get_running_loop()
        if not self._beats:
            self._beats = True
            loop.call_soon(self._wait, ROUNDS)
        if lane not in self._began:
            self._began.add(lane)
            return
        waiting = loop.create_future()
        self._lanes.setdefault(lane, deque()).append(waiting)
        await waiting

    def _wait(self, rounds: int) -> None:
        if rounds > 1:
            asyncio.get_running_loop().call_soon(self._wait, rounds - 1)
        else:
            self._beat()

    def _beat(self) -> None:
        self._began.clear()
        self._began.update(self._lanes)
        while self._lanes:
            lane, waiting = self._lanes.popitem(last=False)
            first = waiting.popleft()
            if waiting:
                self._lanes[lane] = waiting  # behind the other lanes
            if not first.done():  # the request may have been cancelled
                first.set_result(None)
                asyncio.get_running_loop().call_soon(self._wait, ROUNDS)
                return
        self._began.clear()
        self._beats = False


class FairTurns:
    """Makes a request wait for its organization's turn, as well as each piece of a body, either way, if more follows.

    Control's share one lane, and so do all others without a credential.
    """

    def __init__(self, app: ASGIApp, turns: Turns) -> None:
        self._app = app
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        exchange = exchange_of(scope)
        if exchange.principal is not None:
            lane = exchange.principal.organization_id or exchange.principal.name
        else:
            lane = CONTROL if exchange.is_control else REFUSED

        async def receive_in_turn() -> Message:
            message = await receive()
            if message.get("more_body"):
                await self._turns.of(lane)
            return message

        async def send_in_turn(message: Message) -> None:
            if message.get("more_body"):
                await self._turns.of(lane)
            await send(message)

        await self._turns.of(lane)
        await self._app(scope, receive_in_turn, send_in_turn)


class CatchesUp:
    """Runs what has fallen due before a request is handled, in slices between which other requests get a turn."""

    def __init__(self, app: ASGIApp, caught_up: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._caught_up = caught_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        await self._caught_up()
        await self._app(scope, receive, send)
