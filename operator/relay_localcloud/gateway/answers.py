"""Responses at the gateway: with the headers they were given, and none that its HTTP library would add."""

import json

from aiohttp import web

from relay_localcloud.http.errors import ApiError


class _Unadorned(web.StreamResponse):
    async def _prepare_headers(self) -> None:
        # The one place where aiohttp adds them; there is no option. `Date` stays: an origin should send it.
        added = [name for name in ("Server", "Content-Type") if name not in self.headers]
        await super()._prepare_headers()
        for name in added:
            self.headers.popall(name, None)


class Streamed(_Unadorned):
    """An answer that is written as it comes."""


class Whole(_Unadorned, web.Response):
    """An answer that is known whole."""


def json_answer(body: bytes, status: int = 200) -> Whole:
    """A JSON document, already written."""
    return Whole(body=body, status=status, headers={"Content-Type": "application/json"})


def refusal(error: ApiError) -> Whole:
    """The gateway's own error, `{error, code}`."""
    return json_answer(json.dumps({"error": error.message, "code": error.code}).encode(), error.status)
