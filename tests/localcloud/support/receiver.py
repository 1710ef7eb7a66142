"""A receiver of webhooks, which keeps what it was sent and answers as it is told."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.localcloud.support.listener import Listener


@dataclass(frozen=True)
class Received:
    """One call."""

    headers: dict[str, str]
    raw: bytes

    @property
    def event(self) -> Any:
        return json.loads(self.raw)

    @property
    def delivery(self) -> str:
        return self.headers["x-relay-delivery"]

    def is_signed_with(self, secret: str) -> bool:
        """Section 6: HMAC-SHA256 over the raw body; the key is the hex SHA-256 of the secret, as text."""
        key = hashlib.sha256(secret.encode()).hexdigest().encode()
        return self.headers["x-relay-signature"] == "sha256=" + hmac.new(key, self.raw, hashlib.sha256).hexdigest()


@dataclass
class Receiver(Listener):
    """`answers` are given one after the other, then 200."""

    path = "/hook"
    answers: list[int] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)

    @property
    def types(self) -> list[str]:
        """The event types in the order of arrival."""
        return [received.event["type"] for received in self.received]

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(headers, await request.read()))
        if self.hang is not None:
            await self.hang.wait()
        status = self.answers.pop(0) if self.answers else 200
        moved = {"Location": "/elsewhere"} if 300 <= status < 400 else None
        return web.json_response({"ok": True}, status=status, headers=moved)
