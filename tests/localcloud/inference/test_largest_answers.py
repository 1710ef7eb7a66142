"""Answers have a bound: what would be larger is refused before it is put together, and read no further."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import pytest

from relay_localcloud.inference.engine import LARGEST_ANSWER
from tests.localcloud.support.batches import errors, record, run
from tests.localcloud.support.inference import CHAT, call, chat, refusal
from tests.localcloud.support.modelserver import USAGE, ModelServer, completion

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization

CHOICES = 4
BEYOND = [-1, 0, 1]
WHOLE_CHUNK = {"choices": [{"index": 0, "delta": {"content": "whole"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("beyond", BEYOND)
async def test_the_choices_of_an_answer_have_a_bound_together(
    organization: Organization, beyond: int, *, stream: bool
) -> None:
    said = "é" * (LARGEST_ANSWER // CHOICES // 2 - 1) + "a" * (2 + beyond)
    answer = await call(organization, "POST", CHAT, chat(said, n=CHOICES, stream=stream))
    if beyond <= 0:
        assert answer.status == 200
    else:
        assert refusal(answer) == (400, "invalid_request_error", None)


async def test_of_a_long_prompt_as_many_choices_are_made_as_are_short(organization: Organization) -> None:
    long = "w " * (LARGEST_ANSWER // 4)
    answer = await call(organization, "POST", CHAT, chat(long, n=128))
    assert refusal(answer) == (400, "invalid_request_error", None)
    answer = await call(organization, "POST", CHAT, chat(long, n=128, max_tokens=10))
    assert [len(choice["message"]["content"]) for choice in answer.body["choices"]] == [19] * 128


async def test_a_record_of_a_batch_has_the_same_bound(organization: Organization) -> None:
    batch = await run(organization, [record("a", "w" * (LARGEST_ANSWER // 2 + 1), n=2), record("b")])
    assert batch["request_counts"] == {"total": 2, "completed": 1, "failed": 1}
    (line,) = await errors(organization, batch)
    assert (line["custom_id"], line["response"]["status_code"]) == ("a", 400)


@pytest.mark.parametrize("beyond", BEYOND)
async def test_a_servers_answer_has_a_bound(organization: Organization, behind: ModelServer, beyond: int) -> None:
    around = json.dumps(completion(usage=USAGE, pad="")).encode()
    behind.body = around[:-2] + b"x" * (LARGEST_ANSWER + beyond - len(around)) + around[-2:]
    answer = await call(organization, "POST", CHAT, chat("hello", "mine"))
    if beyond <= 0:
        assert answer.body["choices"][0]["message"]["content"] == "from afar"
    else:
        assert refusal(answer) == (502, "api_error", "upstream_error")
        assert "answered more than" in answer.body["error"]["message"]


@pytest.mark.parametrize("lines", [1, 2, 1000])
@pytest.mark.parametrize("beyond", BEYOND)
async def test_an_event_of_a_server_has_a_bound_however_many_lines_it_has(
    organization: Organization, behind: ModelServer, beyond: int, lines: int
) -> None:
    said = json.dumps(WHOLE_CHUNK).encode()
    pads = b"data: \n" * (lines - 1)
    event = b"data: " + said + b" " * (LARGEST_ANSWER + beyond - len(b"data: \n") - len(said) - len(pads)) + b"\n"
    behind.content_type, behind.body = "text/event-stream", pads + event + b"\ndata: [DONE]\n\n"
    answer = await call(organization, "POST", CHAT, chat("hello", "mine", stream=True))
    if beyond <= 0:
        assert (b"whole" in answer.raw, b"error" in answer.raw) == (True, False)
    else:
        assert (b"whole" in answer.raw, b"sent an event of more than" in answer.raw) == (False, True)


@pytest.mark.parametrize("endless", [b"x", b"data: x\n", b"data:\n"])
async def test_an_event_without_end_is_read_no_further_than_its_bound(
    organization: Organization, behind: ModelServer, endless: bytes
) -> None:
    body = b"data: " + endless * (LARGEST_ANSWER // len(endless) + 1)
    behind.content_type, behind.body, behind.hang = "text/event-stream", body, asyncio.Event()
    answer = await call(organization, "POST", CHAT, chat("hello", "mine", stream=True))
    assert b"sent an event of more than" in answer.raw
