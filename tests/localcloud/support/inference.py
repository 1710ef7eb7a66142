"""Raw HTTP to the inference port, and what its answers must look like."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.server import UNSENT, request

if TYPE_CHECKING:
    from tests.localcloud.support.server import Answer, Organization

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"


async def call(organization: Organization, method: str, path: str, body: object = UNSENT, **more: Any) -> Answer:
    """A request with the organization's key as bearer token, unless headers or another key are given."""
    if "headers" not in more:
        more.setdefault("key", organization.api_key)
    return await request(method, organization.server.ready["inferenceUrl"] + path, body, **more)


async def ok(organization: Organization, method: str, path: str, body: object = UNSENT, **more: Any) -> Any:
    """The JSON of a request that must succeed."""
    answer = await call(organization, method, path, body, **more)
    assert answer.status == 200, (method, path, answer.status, answer.raw)
    return answer.body


def refusal(answer: Answer, path: str = CHAT) -> tuple[int, str, str | None]:
    """Status, type and code of an error, whose body must be exactly that of the path's family."""
    body = answer.body
    assert body.pop("type", None) == ("error" if path == MESSAGES else None), answer.raw
    assert list(body) == ["error"], answer.raw
    error = body["error"]
    assert sorted(error) == ["code", "message", "type"], answer.raw
    assert error["message"].endswith("."), error
    return answer.status, error["type"], error["code"]


def chat(content: object, model: str = "echo", /, **more: Any) -> dict[str, Any]:
    """The body of a chat with one user message."""
    return {"model": model, "messages": [{"role": "user", "content": content}], **more}


def message(content: object, model: str = "echo", /, **more: Any) -> dict[str, Any]:
    """The body of a Messages request with one user message."""
    return {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": content}], **more}


def events(raw: bytes) -> list[tuple[str | None, Any]]:
    """The server-sent events of a stream: each one's name and its data, parsed but for `[DONE]`."""
    parsed = []
    for block in raw.decode().removesuffix("\n\n").split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n"))
        assert lines.keys() <= {"event", "data"}, block
        data = lines["data"] if lines["data"] == "[DONE]" else json.loads(lines["data"])
        parsed.append((lines.get("event"), data))
    return parsed


async def balance(organization: Organization) -> Any:
    """The organization's balance, which must hold together."""
    shown = await organization.ok("GET", "/v1/orgs/{org}/billing/balance")
    assert shown["availableCents"] == shown["balanceCents"] - shown["accruedUsageCents"]
    assert shown["balanceCents"] == sum(entry["amountCents"] for entry in shown["transactions"])
    return shown
