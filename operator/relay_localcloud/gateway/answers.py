"""Responses at the gateway: with the given headers, and none that the HTTP library would add."""

import json

from aiohttp import web

from relay_localcloud.http.errors import ApiError


class _Unadorned(web.StreamResponse):
    async def _prepare_headers(self) -> None:
        # aiohttp adds these headers, and has no option against it. `Date` stays, since an origin server should send it.
        added = [name for name in ("Server", "Content-Type") if name not in self.headers]
        await super()._prepare_headers()
        for name in added:
            self.headers.popall(name, None)


class Streamed(_Unadorned):
    """An answer that is written piece by piece."""


class Whole(_Unadorned, web.Response):
    """An answer that is known as a whole."""


def json_answer(body: bytes, status: int = 200) -> Whole:
    """An answer with a JSON document that is encoded already."""
    return Whole(body=body, status=status, headers={"Content-Type": "application/json"})


def refusal(error: ApiError) -> Whole:
    """The gateway's own error, `{error, code}`."""
    refused = json_answer(json.dumps({"error": error.message, "code": error.code}).encode(), error.status)
    refused.headers.update(error.headers)
    return refused
