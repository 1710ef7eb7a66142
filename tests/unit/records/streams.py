"""Records as bytes, and bytes as streams."""

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from relay_operator.records.check import Expected
from relay_operator.records.results import Open

CHAT = "/v1/chat/completions"
EXPECTED = Expected(CHAT, "echo")

cuts = st.lists(st.integers(1, 40), max_size=30)
"""Sizes of chunks."""


def record(custom_id: object = "a", **changes: object) -> dict[str, Any]:
    """A record that passes as it is."""
    body = {"model": "echo", "messages": [{"role": "user", "content": "Grüße"}]}
    return {"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body} | changes


def line(value: object) -> bytes:
    """As one line of a file, without its end."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def file(values: Iterable[object]) -> bytes:
    """As a file."""
    return b"".join(line(value) + b"\n" for value in values)


def success(custom_id: str, text: str = "") -> dict[str, Any]:
    """A line of an output file."""
    response = {"status_code": 200, "request_id": "r", "body": {"text": text}}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}


def failure(custom_id: str, code: str = "upstream_error") -> dict[str, Any]:
    """A line of an error file, of a record that never got an answer."""
    error = {"code": code, "message": "a sentence"}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": None, "error": error}


def refusal(custom_id: str, status: int, error: object) -> dict[str, Any]:
    """A line of an error file, of a record that the model refused."""
    response = {"status_code": status, "request_id": "r", "body": {"error": error}}
    return {"id": "batch_req_1", "custom_id": custom_id, "response": response, "error": None}


async def chunks(data: bytes, sizes: Sequence[int] = ()) -> AsyncIterator[bytes]:
    """The bytes in chunks of these sizes, then the rest."""
    for size in sizes:
        yield data[:size]
        data = data[size:]
    yield data


def opens(values: Iterable[object]) -> Open:
    """A file that can be read again and again."""
    data = file(values)
    return lambda: chunks(data)


async def read(pieces: AsyncIterable[bytes]) -> bytes:
    """All of a stream."""
    return b"".join([piece async for piece in pieces])
