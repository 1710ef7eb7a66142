"""What becomes of requests under way once the whole state is replaced, or the cloud ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from starlette.responses import Response

from relay_localcloud.http.connections import ABORT
from relay_localcloud.http.exchange import Exchange, attach
from relay_localcloud.http.under_way import EndedFromOutside, UnderWay

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Message, Receive, Scope, Send

    from relay_localcloud.http.errors import ApiError

START: Message = {"type": "http.response.start", "status": 200, "headers": []}
MORE: Message = {"type": "http.response.body", "body": b"a", "more_body": True}
LAST: Message = {"type": "http.response.body", "body": b"b"}


@pytest.mark.parametrize("words", [None, lambda _: b"it is cut"], ids=["", "it says so"])
@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize(
    ("sent", "aborted", "status"),
    [((), False, 503), ((START,), True, 200), ((START, MORE), True, 200), ((START, MORE, LAST), False, 200)],
    ids=["nothing", "head", "half", "whole"],
)
async def test_what_has_begun_is_broken_off_and_what_is_complete_is_left_alone(
    sent: tuple[Message, ...], aborted: bool, status: int, replaced: bool, words: Callable[[ApiError], bytes] | None
) -> None:
    answered: list[Message] = []
    broken: list[bool] = []
    standing = asyncio.Event()

    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in sent:
            await send(message)
        standing.set()
        await asyncio.Event().wait()

    async def note(message: Message) -> None:
        answered.append(message)

    async def nothing() -> Message:
        raise AssertionError("nobody asks for the body")

    def refused(error: ApiError, _scope: Scope) -> Response:
        return Response(status_code=error.status)

    under_way = UnderWay()
    scope: Scope = {"type": "http", "extensions": {ABORT: lambda: broken.append(True)}}
    attach(scope, Exchange(None, {}, last_words=words))
    request = asyncio.create_task(EndedFromOutside(app, under_way, refused)(scope, nothing, note))
    await standing.wait()
    if replaced:
        under_way.end_others()
        await under_way.others_ended()
    else:
        request.cancel()
    await request
    said = answered[-1].get("body") == b"it is cut"
    assert (bool(broken), said) == (aborted and words is None, aborted and words is not None)
    assert answered[0]["status"] == status
