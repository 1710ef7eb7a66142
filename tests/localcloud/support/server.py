"""The local cloud as a process, and raw HTTP to it: paths and bodies in tests are literal, from the specification."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import aiohttp

from tests.support.eventually import PATIENCE_SECONDS
from tests.support.forked import CLOUD, POSSIBLE, Forked, cloud

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

COMMAND = Path(sys.executable).with_name("relay-localcloud")
UNSENT = object()
_SESSIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()
"""What the running test's requests go through, by its event loop."""


@dataclass(frozen=True)
class Answer:
    """What came back: `body` is the parsed JSON, None where there is none."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None

    @property
    def refusal(self) -> tuple[int, str]:
        """Status and code of an error, whose body must be exactly `{error, code}`."""
        assert sorted(self.body) == ["code", "error"], self.raw
        assert self.body["error"]
        return self.status, self.body["code"]


async def request(
    method: str,
    url: str,
    body: object = UNSENT,
    *,
    key: str | None = None,
    raw: bytes | AsyncIterator[bytes] | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """One request; `raw` sends exactly these bytes, or each piece of them as it comes."""
    sent = dict(headers or {})
    if key is not None:
        sent["Authorization"] = f"Bearer {key}"
    data = raw
    if body is not UNSENT:
        data = json.dumps(body).encode()
        sent.setdefault("Content-Type", "application/json")
    async with (
        connections() as session,
        session.request(method, url, data=data, headers=sent, allow_redirects=False) as reply,
    ):
        return Answer(reply.status, {k.lower(): v for k, v in reply.headers.items()}, await reply.read())


@asynccontextmanager
async def connections() -> AsyncIterator[aiohttp.ClientSession]:
    """What requests go through on this event loop while this lasts; connections are kept between them."""
    loop = asyncio.get_running_loop()
    if loop in _SESSIONS:
        yield _SESSIONS[loop]
        return
    timeout = aiohttp.ClientTimeout(total=PATIENCE_SECONDS)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as kept:
        _SESSIONS[loop] = kept
        try:
            yield kept
        finally:
            del _SESSIONS[loop]


@dataclass(frozen=True)
class Organization:
    """An organization and its credentials; `call` acts with its key."""

    server: Server
    id: str
    api_key: str
    user_session_token: str
    user_id: str

    async def call(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Answer:
        """A request to the management API; `{org}` in the path becomes the organization's id."""
        more.setdefault("key", self.api_key)
        return await request(method, self.server.url + path.replace("{org}", self.id), body, **more)

    async def ok(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Any:
        """The JSON of a request that must succeed."""
        answer = await self.call(method, path, body, **more)
        assert answer.status in {200, 204}, (method, path, answer.status, answer.raw)
        return answer.body


@dataclass
class Server:
    """One `relay-localcloud serve` process."""

    arguments: tuple[str, ...]
    command: tuple[str, ...] | None = None
    """What is started; None: `program`, forked where that is possible."""
    program: tuple[str, ...] = (CLOUD,)
    """The module whose `main` is called, and what it takes before `serve`."""
    environment: dict[str, str] = field(default_factory=dict)
    """What its environment has besides, or instead of, this process's."""
    ready: dict[str, str] = field(default_factory=dict)
    _child: subprocess.Popen[bytes] | Forked | None = None
    _log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    _forgotten: int = 0
    _line: bytes = b""

    @property
    def url(self) -> str:
        return self.ready["managementUrl"]

    @property
    def log(self) -> str:
        """What it wrote to stderr so far."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size - self._forgotten, self._forgotten).decode(errors="replace")

    @property
    def complaints(self) -> list[str]:
        """What it logged so far, without what it tells in any case."""
        return [line for line in self.log.splitlines() if not line.startswith("INFO ")]

    @property
    def resident(self) -> int:
        """Bytes of memory that it has; those of its libraries the system maps and drops as it likes."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) * 1024

    def begin_anew(self) -> None:
        """Let its log begin here, and its ready line say what it said: tests put other addresses in."""
        self._forgotten = os.fstat(self._log.fileno()).st_size
        self.ready = json.loads(self._line)

    @property
    def child(self) -> subprocess.Popen[bytes] | Forked:
        assert self._child is not None
        return self._child

    def start(self) -> None:
        """Start it and wait for its ready line."""
        ports = ("--port", "0", "--inference-port", "0", "--gateway-port", "0", "--ssh-port", "0")
        given = self.arguments if "--port" in self.arguments else (*ports, *self.arguments)
        environment = os.environ | self.environment
        if POSSIBLE and self.command is None:
            self._child = cloud(*self.program, "serve", *given).piped(environment, self._log.fileno())
        else:
            command = (*(self.command or (sys.executable, "-m", *self.program)), "serve", *given)
            self._child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=self._log)
        assert self._child.stdout is not None
        impatient = threading.Timer(PATIENCE_SECONDS, self._child.kill)
        impatient.start()
        line = self._child.stdout.readline()
        impatient.cancel()
        assert line, f"the local cloud ended before it was ready:\n{self.log}"
        self._line = line
        self.ready = json.loads(line)

    def kill(self) -> None:
        """SIGKILL."""
        self.child.kill()
        self.child.wait(timeout=PATIENCE_SECONDS)

    def stop(self) -> int:
        """SIGTERM; its exit code. Its log is whole then."""
        self.child.send_signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout=PATIENCE_SECONDS)
        finally:
            self.child.kill()

    @property
    def _admin_token(self) -> str | None:
        flag = "--admin-token-file"
        return Path(self.arguments[self.arguments.index(flag) + 1]).read_text() if flag in self.arguments else None

    async def control(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Answer:
        """A request to the control interface."""
        more.setdefault("key", self._admin_token)
        return await request(method, self.ready["controlUrl"] + path, body, **more)

    async def ok(self, method: str, path: str, body: object = UNSENT, **more: Any) -> Any:
        """The JSON of a control call that must succeed."""
        answer = await self.control(method, path, body, **more)
        assert answer.status in {200, 204}, (method, path, answer.status, answer.raw)
        return answer.body

    async def advance(self, seconds: float) -> str:
        """Move the clock on; the time it shows."""
        shown: dict[str, str] = await self.ok("POST", "/clock", {"advanceSeconds": seconds})
        return shown["now"]

    async def organization(self, **body: object) -> Organization:
        """A fresh organization with 100,000 cents and every scope, unless the body says otherwise."""
        made = await self.ok("POST", "/orgs", {"name": "Test", "balanceCents": 100_000, **body})
        return Organization(self, made["organizationId"], made["apiKey"], made["userSessionToken"], made["userId"])

    def seeded(self) -> Organization:
        """The organization of the ready line."""
        return Organization(
            self, self.ready["organizationId"], self.ready["apiKey"], self.ready["userSessionToken"], ""
        )
