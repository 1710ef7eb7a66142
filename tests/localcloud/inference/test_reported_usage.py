"""What a server behind a model says that it took is charged as far as it can be true."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.localcloud.support.batches import record, run
from tests.localcloud.support.deployments import BACKENDS
from tests.localcloud.support.inference import CHAT, MESSAGES, balance, call, chat, message
from tests.localcloud.support.modelserver import ModelServer, completion

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Organization

LIES = 2**36
COUNTS = {CHAT: ("prompt_tokens", "completion_tokens"), MESSAGES: ("input_tokens", "output_tokens")}


@pytest_asyncio.fixture
async def behind(organization: Organization) -> AsyncIterator[ModelServer]:
    """A server behind the model `mine`."""
    async with ModelServer() as server:
        families = ["chat_completions", "messages"]
        body = {"provider": "vertex", "ref": "mine", "endpoint": server.url, "nativeFamilies": families}
        await organization.ok("POST", BACKENDS.format(model="mine"), body)
        yield server


def answering(path: str, asked: int, answered: int, *, stream: bool = False) -> bytes:
    """What a server answers that says that it took so many tokens."""
    usage = dict(zip(COUNTS[path], (asked, answered), strict=True))
    if not stream:
        said = {"content": [{"type": "text", "text": "from afar"}]} if path == MESSAGES else completion()
        return json.dumps({**said, "usage": usage}).encode()
    events: list[dict[str, Any]] = [{"choices": [], "usage": usage}]
    if path == MESSAGES:
        begun = {"type": "message_start", "message": {"usage": usage}}
        events = [begun, {"type": "message_delta", "usage": usage}, {"type": "message_stop"}]
    end = b"data: [DONE]\n\n" if path == CHAT else b""
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end


def asking(path: str, *, stream: bool = False, **more: Any) -> dict[str, Any]:
    return (chat if path == CHAT else message)("three small words", "mine", stream=stream, **more)


async def charged(organization: Organization, behind: ModelServer, body: dict[str, Any]) -> tuple[int, int]:
    """The tokens in and out that one request is charged for."""
    before = await used(organization)
    behind.content_type = "text/event-stream" if body["stream"] else "application/json"
    path = CHAT if b"completion_tokens" in (behind.body or b"") else MESSAGES
    assert (await call(organization, "POST", path, body)).status == 200
    after = await used(organization)
    return after[0] - before[0], after[1] - before[1]


async def used(organization: Organization) -> tuple[int, int]:
    totals = (await organization.ok("GET", "/v1/orgs/{org}/ai/proxy-usage"))["totals"]
    return totals["inputTokens"], totals["outputTokens"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_no_more_tokens_are_asked_than_bytes_were_sent(
    organization: Organization, behind: ModelServer, path: str, *, stream: bool
) -> None:
    body = asking(path, stream=stream)
    behind.body = answering(path, 1, 1, stream=stream)
    await charged(organization, behind, body)
    sent = int(behind.received[0][0]["content-length"])
    for said, taken in ((sent - 1, sent - 1), (sent, sent), (sent + 1, sent), (LIES, sent)):
        behind.body = answering(path, said, 1, stream=stream)
        assert await charged(organization, behind, body) == (taken, 1)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "limits", "most"),
    [
        (CHAT, {"max_tokens": 7}, 7),
        (CHAT, {"max_completion_tokens": 7, "max_tokens": 9}, 7),
        (CHAT, {"max_tokens": 7, "n": 3}, 21),
        (MESSAGES, {"max_tokens": 7}, 7),
    ],
)
async def test_no_more_tokens_are_answered_than_were_asked_for(
    organization: Organization, behind: ModelServer, path: str, limits: dict[str, int], most: int, *, stream: bool
) -> None:
    for said, taken in ((most - 1, most - 1), (most, most), (most + 1, most), (LIES, most)):
        behind.body = answering(path, 1, said, stream=stream)
        assert await charged(organization, behind, asking(path, stream=stream, **limits)) == (1, taken)


@pytest.mark.parametrize("stream", [False, True])
async def test_no_more_tokens_are_answered_than_bytes_came(
    organization: Organization, behind: ModelServer, *, stream: bool
) -> None:
    came = next(size for size in range(999) if size == _size(answering(CHAT, 1, size, stream=stream), stream=stream))
    for said, taken in ((came - 1, came - 1), (came, came), (came + 1, came)):
        behind.body = answering(CHAT, 1, said, stream=stream)
        assert await charged(organization, behind, asking(CHAT, stream=stream)) == (1, taken)


def _size(answer: bytes, *, stream: bool) -> int:
    """The bytes of an answer; of a stream, those of what its events say."""
    data = [line.removeprefix(b"data: ") for line in answer.split(b"\n")] if stream else [answer]
    return sum(map(len, data))


async def test_a_batch_is_charged_as_little(organization: Organization, behind: ModelServer) -> None:
    behind.body = answering(CHAT, LIES, LIES)
    batch = await run(organization, [record("one", "three small words", "mine", max_tokens=5)])
    sent = int(behind.received[0][0]["content-length"])
    assert batch["usage"] == {"input_tokens": sent, "output_tokens": 5, "cost_nano_usd": (sent + 5) * 50}
    assert (await balance(organization))["balanceCents"] == 100_000
