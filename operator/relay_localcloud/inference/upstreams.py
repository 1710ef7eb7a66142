"""Requests to the servers of models: OpenAI-compatible, over real HTTP."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from traceback import clear_frames
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, assert_never

from pydantic import JsonValue

from relay_localcloud.egress.reach import Reach
from relay_localcloud.http.json_values import MOST_VALUES, has_infinite, has_more, parsed
from relay_localcloud.inference.engine import LARGEST_ANSWER
from relay_localcloud.inference.errors import (
    INVALID_REQUEST,
    PAYLOAD_TOO_LARGE,
    RATE_LIMITED,
    REJECTED,
    UPSTREAM_ERROR,
    UPSTREAM_UNAVAILABLE,
    InferenceError,
    Row,
)
from relay_localcloud.kernel.vault import Unreadable, Vault
from relay_localcloud.models.backends import Server
from relay_localcloud.runtimes.runtime import Containers
from relay_wire.inference import Family

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS: Final = 10.0
SILENT_SECONDS: Final = 300.0
WHOLE_SECONDS: Final = 3600.0
LARGEST_REFUSAL: Final = 64 * 1024
"""A larger refusal is not passed on."""
MOST_TIMES: Final = 32
"""How often a request may come through here: a server may lead back to this cloud."""
_HERE: Final = "relay-localcloud"

_PASSED_ON: Final[Mapping[int, Row]] = {
    row[0]: row for row in (INVALID_REQUEST, PAYLOAD_TOO_LARGE, REJECTED, RATE_LIMITED, UPSTREAM_UNAVAILABLE)
}
"""Refusals that mean the same to the caller; any other means that the model's server is failing."""

_ANSWERS: Final[Mapping[Family, str]] = {Family.CHAT_COMPLETIONS: "choices", Family.MESSAGES: "content"}
"""The list that an answer has in each family: some servers answer an error with 200."""

_NO_STREAM: Final = frozenset({"application/json", "text/html"})
"""The content types of what is certainly not a stream, although one was asked for."""

Json = dict[str, JsonValue]


class Upstreams:
    """Calls servers, and counts the requests under way at each.

    `draw` is uniform in [0, 1); `vault` opens the keys of servers; `reach` limits their addresses. `containers` has the
    replicas that run; None: nothing runs.
    """

    def __init__(
        self, draw: Callable[[], float], vault: Vault, reach: Reach, containers: Containers | None = None
    ) -> None:
        self._vault = vault
        self._reach = reach
        self.containers = containers
        self.draw = draw
        self.under_way: Counter[str] = Counter()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether they lead anywhere

    async def __aenter__(self) -> Self:
        """Do nothing: connections are opened on demand."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the connections."""
        for session in self._sessions.values():
            await session.close()

    async def ask(self, server: Server, family: Family, body: bytes, via: str = "") -> tuple[Json, int]:
        """The server's answer to one request, and its size in bytes; `via` names the servers that the request came
        through, as its header does. Raises InferenceError.
        """
        async with self._posted(server, family, body, via) as response:
            raw = await _read(response)
        await _require_few_values(raw)
        document = _parsed(raw)
        if not isinstance(document, dict) or not isinstance(document.get(_ANSWERS[family]), list):
            raise _unwell("answered something that is not a model's answer")
        return document, len(raw)

    async def stream(self, server: Server, family: Family, body: bytes, via: str = "") -> AsyncGenerator[str, None]:
        """The data of each event, from a stream that has begun. Raises InferenceError, also if the stream is cut."""
        opened = self._events(server, family, body, via)
        await anext(opened)  # by then the status is known
        return opened

    @contextmanager
    def counting(self, server_id: str) -> Iterator[None]:
        """Count a request under way at a server or replica while this lasts."""
        self.under_way[server_id] += 1
        try:
            yield
        finally:
            self.under_way[server_id] -= 1
            if not self.under_way[server_id]:
                del self.under_way[server_id]

    async def _events(self, server: Server, family: Family, body: bytes, via: str) -> AsyncGenerator[str, None]:
        async with self._posted(server, family, body, via) as response:
            if response.content_type in _NO_STREAM:
                raise _unwell(f"answered {response.content_type} instead of a stream")
            yield ""
            data: list[str] = []
            size = 0
            async for line in _lines(response):
                if line.startswith("data:"):
                    data.append(line[5:].removeprefix(" "))
                    size += len(line.encode()) + 1
                    _require_small(size)
                elif not line and data:
                    event, data, size = "\n".join(data), [], 0
                    await _require_few_values(event.encode())
                    yield event
            event = "\n".join(data)
            await _require_few_values(event.encode())
            if event == "[DONE]" or _parsed_or_none(event) is not None:  # only its blank line is missing
                yield event

    @asynccontextmanager
    async def _posted(
        self, server: Server, family: Family, body: bytes, via: str
    ) -> AsyncIterator["aiohttp.ClientResponse"]:
        import aiohttp  # noqa: PLC0415 - it takes a fifth of the start, and nobody may ever register a server

        if via.count(_HERE) >= MOST_TIMES:
            raise _unwell("leads back here")
        with self.counting(server.id):
            try:
                async with self._opened(aiohttp, anywhere=server.way is not None).post(
                    server.endpoint.rstrip("/") + family.removeprefix("/v1"),
                    data=body,
                    headers={**_headers(server, self._vault), "Via": ", ".join(filter(None, (via, f"1.1 {_HERE}")))},
                    allow_redirects=False,
                    ssl=True if server.way is None or server.way.proxied is None else server.way.proxied.tls,
                ) as response:
                    if response.status != 200:
                        raise await _refusal(response)
                    yield response
            except (aiohttp.ClientError, TimeoutError, OSError) as failure:
                _let_go(failure)
                raise _unwell(f"cannot be used ({type(failure).__name__})") from failure

    def _opened(self, http: Any, *, anywhere: bool) -> "aiohttp.ClientSession":  # noqa: ANN401 - the module aiohttp
        if anywhere not in self._sessions:
            timeout = http.ClientTimeout(total=WHOLE_SECONDS, sock_connect=CONNECT_SECONDS, sock_read=SILENT_SECONDS)
            from relay_localcloud.egress.connections import connector_to  # noqa: PLC0415 - it loads aiohttp

            reach = Reach.everywhere() if anywhere else self._reach
            connector = connector_to(reach, verified=True, limit=0, keepalive_timeout=2)
            jar = http.DummyCookieJar()
            self._sessions[anywhere] = http.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar)
        return self._sessions[anywhere]


def _let_go(failure: BaseException) -> None:
    """Empty the frames that an error came through.

    Some of the HTTP client's refer to it in turn, and the frames that wait above them have the body that was sent: it
    would wait to be collected.
    """
    error: BaseException | None = failure
    while error is not None:
        clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _headers(server: Server, vault: Vault) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "User-Agent": "relay-localcloud", "anthropic-version": "2023-06-01"}
    match server.auth:
        case "none":
            pass
        case "api_key":
            if server.sealed_key is not None:
                headers["Authorization"] = f"Bearer {_key(server.sealed_key, server.key_owner, vault)}"
        case "aws_sigv4" | "gcp_oauth":
            raise _unwell(f"takes {server.auth}, which the local cloud cannot sign")
        case _ as never:
            assert_never(never)
    if server.way is not None and server.way.proxied is not None:
        headers.update(server.way.proxied.headers())
    return headers


def _key(sealed: str, owner: str, vault: Vault) -> str:
    try:
        return vault.open(sealed, owner)
    except Unreadable:
        raise _unwell(
            "has a key that was encrypted under another one than this state's, as after an import: register it again"
        ) from None


async def _refusal(response: "aiohttp.ClientResponse") -> InferenceError:
    row = _PASSED_ON.get(response.status)
    if row is None:
        return _unwell(f"answered {response.status}")
    raw = await _read(response)
    document = _parsed_or_none(raw) if len(raw) <= LARGEST_REFUSAL else None
    error = document.get("error") if isinstance(document, dict) else None
    said = error.get("message") if isinstance(error, dict) else None
    message = said[:500] if isinstance(said, str) and said else f"The model's server answered {response.status}."
    wait = response.headers.get("Retry-After", "")
    return InferenceError(*row, message, {"Retry-After": wait} if re.fullmatch("[0-9]+", wait) else {})


async def _read(response: "aiohttp.ClientResponse") -> bytes:
    answer = bytearray()
    async for chunk in response.content.iter_any():
        answer += chunk
        if len(answer) > LARGEST_ANSWER:
            raise _unwell(f"answered more than {LARGEST_ANSWER} bytes")
    return bytes(answer)


async def _lines(response: "aiohttp.ClientResponse") -> AsyncIterator[str]:
    rest = bytearray()
    async for chunk in response.content.iter_any():
        more, *lines = chunk.split(b"\n")
        rest += more
        for line in lines:
            yield rest.rstrip(b"\r").decode(errors="replace")
            rest = bytearray(line)
        _require_small(len(rest))
    if rest:
        yield rest.rstrip(b"\r").decode(errors="replace")


def _require_small(event_bytes: int) -> None:
    if event_bytes > LARGEST_ANSWER:
        raise _unwell(f"sent an event of more than {LARGEST_ANSWER} bytes")


async def _require_few_values(raw: bytes) -> None:
    if await has_more(raw):
        raise _unwell(f"answered with over {MOST_VALUES} values")


def _parsed(raw: bytes | str) -> JsonValue:
    try:
        document = parsed(raw)
    except ValueError:
        raise _unwell("answered something that is not JSON") from None
    if has_infinite(document):
        raise _unwell("answered with a number that is too large")
    return document


def _parsed_or_none(raw: bytes | str) -> JsonValue:
    try:
        return _parsed(raw)
    except InferenceError:
        return None


def parsed_event(data: str) -> Json:
    """The data of an event as a JSON object; InferenceError if it is not one, or reports that the stream was cut."""
    document = _parsed(data)
    if not isinstance(document, dict):
        raise _unwell("sent an event that is not a JSON object")
    if document.get("error"):
        raise _unwell("broke off in the middle of its answer")
    return document


def cut() -> InferenceError:
    """The error at the end of a stream whose server disconnected."""
    return _unwell("broke off in the middle of its answer")


def _unwell(what: str) -> InferenceError:
    return InferenceError(*UPSTREAM_ERROR, f"The model is temporarily unavailable: its server {what}.")
