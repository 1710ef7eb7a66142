"""Fair turns: while many requests wait for the event loop, organizations take turns, whoever sends how many."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.exchange import exchange_of

REFUSED: Final = "refused"
"""The lane of all whose credential is not known."""

ROUNDS: Final = 3
"""Of the event loop, between one request that waited and the next.

A request that arrives takes about as many until it begins: so of those that wait it meets one, not one in each round.
"""

_Waiting = asyncio.Future[None]


class Turns:
    """Lets requests begin one after another, of each lane in turn, whatever their port.

    Who finds none of its own lane before it begins at once: so who asks little waits little.
    """

    def __init__(self) -> None:
        self._lanes: Final[OrderedDict[str, deque[_Waiting]]] = OrderedDict()
        self._began: Final[set[str]] = set()  # since the last beat
        self._beats = False

    async def of(self, lane: str) -> None:
        """Return when it is this lane's turn."""
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
                self._lanes[lane] = waiting  # behind the others
            if not first.done():  # whoever waited may have gone
                first.set_result(None)
                asyncio.get_running_loop().call_soon(self._wait, ROUNDS)
                return
        self._began.clear()
        self._beats = False


class FairTurns:
    """A request waits for a turn of its organization, and so does each piece of a body, either way, if more follows.

    Those of nobody, such as control's, share one lane.
    """

    def __init__(self, app: ASGIApp, turns: Turns) -> None:
        self._app = app
        self._turns = turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        caller = exchange_of(scope).principal
        lane = "" if caller is None else caller.organization_id or caller.name

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
    """Before a request is looked at, what fell due by then happens, in slices between which others have their turn."""

    def __init__(self, app: ASGIApp, caught_up: Callable[[], Awaitable[None]]) -> None:
        self._app = app
        self._caught_up = caught_up

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        await self._caught_up()
        await self._app(scope, receive, send)
