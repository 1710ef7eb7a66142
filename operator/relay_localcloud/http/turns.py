"""Fair turns: while many requests wait for the event loop, organizations take turns, whoever sends how many."""

import asyncio
from collections import OrderedDict, deque
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_localcloud.http.exchange import exchange_of

REFUSED: Final = "refused"
"""The lane of all whose credential is not known."""

_Waiting = asyncio.Future[None]


class Turns:
    """Lets one request begin in each round of the event loop, whatever its port, and of each lane in turn.

    Who finds nobody else begins at once. A lane that did not wait comes before those that do, so that who asks little
    waits little.
    """

    def __init__(self) -> None:
        self._lanes: Final[OrderedDict[str, deque[_Waiting]]] = OrderedDict()
        self._one_began = False
        self._last = ""

    async def of(self, lane: str) -> None:
        """Return when it is this lane's turn."""
        loop = asyncio.get_running_loop()
        if not self._one_began:
            self._one_began, self._last = True, lane
            loop.call_soon(self._next)
            return
        waiting = loop.create_future()
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            if lane != self._last:
                self._lanes.move_to_end(lane, last=False)
        self._lanes[lane].append(waiting)
        await waiting

    def _next(self) -> None:
        while self._lanes:
            lane, waiting = self._lanes.popitem(last=False)
            first = waiting.popleft()
            if waiting:
                self._lanes[lane] = waiting  # behind the others
            if not first.done():  # whoever waited may have gone
                first.set_result(None)
                self._last = lane
                asyncio.get_running_loop().call_soon(self._next)
                return
        self._one_began = False


class FairTurns:
    """A request waits for a turn of its organization, and so does each piece of its body that has more behind it.

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

        await self._turns.of(lane)
        await self._app(scope, receive_in_turn, send)
