"""Twenty thousand requests that nobody means, over all operations: none fails, or holds memory or the event loop."""

from __future__ import annotations

import contextlib
import json
import random
import secrets
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from relay_localcloud.kernel.memory import EVERY_SECONDS
from relay_localcloud.settings import Settings
from tests.localcloud.support.everything import MADE_BY, POD, Everything, Operation, everything
from tests.localcloud.support.server import Server, request
from tests.localcloud.support.strange import LARGEST, Strange
from tests.localcloud.support.watched import Longest
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REQUESTS: Final = 20_000
_WARM: Final = 4_000
"""Each operation some twenty times: what is loaded, cached and fragmented once is there from then on."""
_AGAIN: Final = 2_000
"""After so many, what stands in paths is made again."""
LONGEST_SECONDS: Final = 0.1
MOST_BYTES: Final = 20_000_000
STALLED_SECONDS: Final = Settings().stalled_body_seconds
_BODIES: Final = {f"{method} {path}": body for method, path, body in MADE_BY.values()}
_INFERENCE: Final = LARGEST["inferenceUrl"] - 1000
_CHAT: Final = {"model": "echo", "max_tokens": 100}
_MESSAGE: Final = {"role": "user", "content": "a, b [c] {d} é"}
_TOOL: Final = {"type": "function", "function": {"name": "f", "description": "x" * 500}}


def _record(content: str) -> dict[str, Any]:
    body = {"model": "echo", "messages": [{"role": "user", "content": content}]}
    return {"custom_id": secrets.token_hex(4), "method": "POST", "url": "/v1/chat/completions", "body": body}


def _batch(records: list[dict[str, Any]]) -> dict[str, Any]:
    return {"requests": records, "endpoint": "/v1/chat/completions"}


_ASKED: Final[tuple[Callable[[], dict[str, Any]], ...]] = (
    lambda: {**_CHAT, "messages": [{"role": "user", "content": "x, " * (_INFERENCE // 3)}]},
    lambda: {**_CHAT, "messages": [{"role": "user", "content": '"\n' * (_INFERENCE // 4)}]},
    lambda: {**_CHAT, "messages": [_MESSAGE] * 10_000},
    lambda: {**_CHAT, "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 8_000}] * 2},
    lambda: {**_CHAT, "messages": [_MESSAGE], "tools": [_TOOL] * 9_000},
    lambda: {**_CHAT, "messages": [_MESSAGE], "metadata": {f"k{number}": "v" * 150 for number in range(49_000)}},
)
LARGE: Final[dict[str, tuple[Callable[[], dict[str, Any]], ...]]] = {
    "POST /v1/chat/completions": _ASKED,
    "POST /v1/messages": _ASKED,
    "POST /v1/batches": (
        lambda: _batch([_record("\u00e9" * (_INFERENCE // 2))]),
        lambda: _batch([_record("x" * 1_800) for _ in range(4_900)]),
    ),
    "POST /v1/pods": (
        lambda: {**POD, "env": {"K": "v" * 131_000}},
        lambda: {**POD, "env": {f"K{number}": "v" for number in range(13_000)}},
    ),
}
"""What is accepted, about as large as it can be."""


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[tuple[Server, Longest]]:
    """A cloud with its state on disk, and what its event loop was held by."""
    told = tmp_path / "longest"
    longest = Longest(told)
    command = (sys.executable, "-m", "tests.localcloud.support.watched", str(told))
    server = Server(("--state", str(tmp_path / "state"), "--clock", "frozen", "--list-vms"), command)
    server.start()
    yield server, longest
    server.kill()


class Fuzz:
    """Sends them, one after the other: so what held the loop is known."""

    def __init__(self, known: Everything, longest: Longest, seed: int) -> None:
        self.known, self.longest = known, longest
        self.strange = Strange(known.document, random.Random(seed))
        self.statuses: Counter[int] = Counter()
        self.accepted: Counter[str] = Counter()
        """Of `LARGE`."""
        self.slowest: list[tuple[float, str]] = []
        self.paths: dict[str, dict[str, str]] = {}

    async def send(self, count: int) -> None:
        """Every operation in turn; what stands in its path is made again now and then, since some end it."""
        operations = list(self.known.operations())
        for operation in operations:  # before the first of them may take what the others need
            self.paths[operation.name] = await self.known.path(operation)
        for number in range(count):
            operation = operations[number % len(operations)]
            if number >= _AGAIN and number % _AGAIN < len(operations):
                await self._make(operation)
            self.longest.taken()
            await self._one(operation)

    async def _make(self, operation: Operation) -> None:
        """What was made before will do, if the others of this kind have taken all that there was."""
        with contextlib.suppress(AssertionError):
            self.paths[operation.name] = await self.known.path(operation)

    async def _one(self, operation: Operation) -> None:
        strange, ready = self.strange, self.known.organization.server.ready
        path = {name: strange.segment(value) for name, value in self.paths[operation.name].items()}
        largest = LARGEST["inferenceUrl" if operation.url == ready["inferenceUrl"] else "managementUrl"]
        more: dict[str, Any] = {}
        if operation.description.get("requestBody"):
            large = LARGE.get(operation.name, ()) if strange.chance.random() < 0.3 else ()
            more["raw"] = (
                json.dumps(strange.chance.choice(large)(), ensure_ascii=False).encode()
                if large
                else strange.body(operation, _BODIES.get(operation.name), largest)
            )
        query = "&".join(f"{name}={value}" for name, value in strange.query(operation).items())
        url = operation.url + operation.template.format(**path) + (f"?{query}" if query else "")
        key = self.known.organization.api_key
        answer = await request(operation.method, url, key=key, headers={"Content-Type": "application/json"}, **more)
        self.statuses[answer.status] += 1
        self.accepted[operation.name] += answer.status == 200 and operation.name in LARGE and len(more["raw"]) > 100_000
        if answer.status >= 500 and answer.status not in {502, 503}:
            raise AssertionError(f"{operation.name}: {answer.status} {answer.raw[:500]!r} to {str(more)[:500]}")
        told = f"{operation.name} {answer.status}, {len(more.get('raw', b''))} bytes, {len(answer.raw)} answered"
        self.slowest = sorted([*self.slowest, (self.longest.taken(), told)], reverse=True)[:20]


async def _settled(server: Server, most: int = 0) -> int:
    """Bytes of memory once nothing is asked any more; it may take a while until they are as few as they can be.

    The loop that can be measured keeps a timer that was cancelled, such as that of a body, until its time would have
    come, and with it the memory around it; the cloud's own loop does not.
    """

    async def resident() -> int:
        return server.resident

    await server.ok("POST", "/reset")
    with contextlib.suppress(AssertionError):
        await eventually(resident, lambda size: size <= most, within=STALLED_SECONDS + 3 * EVERY_SECONDS)
    return server.resident


@pytest.mark.long
async def test_no_request_holds_the_loop_or_memory(watched: tuple[Server, Longest]) -> None:
    server, longest = watched
    seed = random.randrange(10**6)
    await Fuzz(await everything(server), longest, seed).send(_WARM)
    before = await _settled(server)
    fuzz = Fuzz(await everything(server), longest, seed + 1)
    await fuzz.send(REQUESTS)
    told = [f"seed {seed}; {dict(fuzz.statuses)}", *(f"{took * 1000:.0f} ms: {what}" for took, what in fuzz.slowest)]
    after = await _settled(server, before + MOST_BYTES)
    assert "Traceback" not in server.log, told
    assert {name for name, count in fuzz.accepted.items() if count} == LARGE.keys(), told
    assert 0.001 < fuzz.slowest[0][0] < LONGEST_SECONDS, "\n".join(told)
    assert after - before < MOST_BYTES, "\n".join([f"from {before} to {after} bytes", *told])
