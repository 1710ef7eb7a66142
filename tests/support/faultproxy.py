"""A proxy in front of the API server, the local cloud and others that logs every request and injects faults."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import ssl
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from aiohttp import ClientError, web
from multidict import CIMultiDict
from yarl import URL

from tests.support import faultrules as rules
from tests.support.certificates import write_serving_certificate
from tests.support.faultrules import Armed, Breakage, Call, Logged, Moment, Rule, Side
from tests.support.faultupstream import Reply, Upstream, UpstreamLost, passed_on
from tests.support.process import free_port
from tests.support.servers import write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    import aiohttp

_DRIP_STEPS = 50
_CREATES = frozenset({"POST /v1/pods", "POST /v1/orgs/{id}/vms/create", "POST /v1/orgs/{id}/clusters/create"}) | {
    "POST /v1/orgs/{id}/runner-pools"
}
_PAID = frozenset({"gpupods", "gpuvms", "gpuclusters", "runnerpools"})
_WORKLOADS = _PAID | {"inferencebatches", "inferencebatchschedules"}


@dataclass
class Held:
    """A call that waits; `action`, that of `rule`, says at which moment and what is done meanwhile."""

    rule: Rule
    action: rules.Hold
    call: Call
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def release(self) -> None:
        """Lets the call continue."""
        self._released.set()

    async def until_released(self) -> None:
        """Waits for `release`."""
        await self._released.wait()


@dataclass(eq=False)
class _Watch:
    """An open watch; `broken` is set to the way it is to break, `over` when a silent watch is to be cut."""

    call: Call
    broken: asyncio.Future[rules.BreakWatches]
    over: asyncio.Event = field(default_factory=asyncio.Event)


class FaultProxy:
    """One operator's proxy to all servers. Use it only in the event loop that started it.

    `kubeconfig` and `urls` lead to the servers through it; callers' tokens and keys are passed on. Answers are read in
    full before any part is passed on, except watches, which stream.
    """

    def __init__(
        self, folder: Path, kubeconfig: Path, cloud_url: str, further: Mapping[Side, str] | None = None
    ) -> None:
        behind = {Side.CLOUD: cloud_url, **(further or {})}
        self.kubeconfig = folder / "proxied.kubeconfig"
        self.urls = {side: f"http://127.0.0.1:{free_port()}" for side in behind}
        self.cloud_url = self.urls[Side.CLOUD]
        self.log: list[Logged] = []
        self.phase = ""
        """The last step of the users in a scenario; part of each call's name."""
        self.held: asyncio.Queue[Held] = asyncio.Queue()
        self._folder = folder
        self._armed: list[Armed] = []
        self._watches: set[_Watch] = set()
        self._silent: set[_Watch] = set()
        self._forwarding: set[asyncio.Task[None]] = set()
        self._overtaken: list[tuple[web.BaseRequest, bytes, Logged]] = []
        self._reasons: dict[Call, str] = {}
        self.recorded: set[tuple[str, str]] = set()
        """(UID, cloud id) of each paid workload whose status has held that id since the last `arm`."""
        self.made: dict[str, str] = {}
        """Names of paid resources that the cloud has created since the last `arm`, by cloud id."""
        self.late: set[str] = set()
        """Cloud ids that overtaken creates have made since the last `arm`, after a later attempt was answered."""
        self.broken_watches = 0
        self.let_go_at = 0.0
        """Monotonic seconds at which the last held call continued; 0 before any, infinite while one is held."""
        self._written = asyncio.Event()
        self._open_gate = asyncio.Event()
        self._open_gate.set()
        self._upstream = Upstream(kubeconfig, behind)
        self._kube_url = f"https://127.0.0.1:{free_port()}"
        self._ends = contextlib.AsyncExitStack()

    async def start(self) -> None:
        """Listens in place of every server and writes the kubeconfig."""
        self._folder.mkdir(parents=True, exist_ok=True)
        write_serving_certificate(self._folder)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._folder / "apiserver.crt", self._folder / "apiserver.key")
        authority = base64.b64encode((self._folder / "ca.crt").read_bytes()).decode()
        cluster = {"server": self._kube_url, "certificate-authority-data": authority}
        write_kubeconfig(self.kubeconfig, cluster, self._upstream.token, self._upstream.namespace)
        await self._ends.enter_async_context(self._upstream)
        await self._listen(self._kube_url, self._handler(Side.KUBE), tls)
        for side, url in self.urls.items():
            await self._listen(url, self._handler(side), None)

    async def stop(self) -> None:
        """Cuts open watches and stops listening."""
        self._open_gate.set()
        for watch in self._watches:
            _break(watch, rules.BreakWatches(Breakage.CUT))
        await self._ends.aclose()

    def arm(self, *chosen: Rule) -> tuple[Armed, ...]:
        """Replaces all rules, clears what was recorded, and returns the rules with counters. Silent watches are cut."""
        self.disarm()
        self._reasons.clear()
        self.recorded.clear()
        self.made.clear()
        self.late.clear()
        self._overtaken.clear()
        self._armed = [Armed(rule) for rule in chosen]
        return tuple(self._armed)

    def disarm(self) -> None:
        """Removes all rules and keeps what was recorded. Silent watches are cut."""
        for watch in self._silent:
            watch.over.set()
        self._armed = []

    def also(self, rule: Rule) -> None:
        """Adds a rule to those that apply."""
        self._armed.append(Armed(rule))

    def since(self, position: int) -> list[Logged]:
        """Returns the calls after the first `position` ones, in order of arrival."""
        return self.log[position:]

    async def written(self, seconds: float) -> None:
        """Waits for a write to any server since the last return, for at most so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._written.wait()
        self._written.clear()

    @property
    def state(self) -> str:
        """The distinct reasons of Ready that the operator last wrote to workloads since the last `arm`, sorted."""
        return " ".join(sorted(set(self._reasons.values())))

    def break_watches(self, how: rules.BreakWatches) -> int:
        """Breaks every open watch; returns how many there were."""
        for watch in self._watches:
            _break(watch, how)
        self.broken_watches += len(self._watches)
        return len(self._watches)

    async def _listen(
        self, url: str, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], tls: ssl.SSLContext | None
    ) -> None:
        # A handler is cancelled when its caller disconnects: what is held back from a killed caller is never forwarded.
        server = web.Server(handler, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        await runner.setup()
        self._ends.push_async_callback(runner.cleanup)
        await web.TCPSite(runner, "127.0.0.1", URL(url).port, ssl_context=tls).start()

    def _handler(self, side: Side) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
        async def handle(request: web.BaseRequest) -> web.StreamResponse:
            raw = await request.content.read()
            logged = self._logged(side, request, raw)
            await self._open_gate.wait()
            try:
                if logged.call.operation.startswith("WATCH "):
                    return await self._watch(request, logged)
                return await self._call(request, raw, logged)
            except UpstreamLost:
                return _dropped(request)

        return handle

    def _logged(self, side: Side, request: web.BaseRequest, raw: bytes) -> Logged:
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            body = {}
        body = body if isinstance(body, dict) else {}
        match side:
            case Side.KUBE:
                call = rules.kube_call(request.method, request.path, request.query, body)
            case Side.STORE:
                call = rules.store_call(request.method, request.path, request.query)
            case _:
                call = rules.cloud_call(request.method, request.path, body, side)
        call = replace(call, phase=self.phase, state=self.state)
        applying = [armed.rule for armed in self._armed if armed.meets(call)]
        logged = Logged(len(self.log) + 1, call, body, fault=applying[0] if applying else None)
        self.log.append(logged)
        return logged

    async def _call(self, request: web.BaseRequest, raw: bytes, logged: Logged) -> web.StreamResponse:
        answered = await self._before(request, raw, logged)
        if answered is not None:
            return answered
        # Shielded: a request on its way to a server arrives there, and is recorded, even if the caller dies meanwhile.
        reply = await asyncio.shield(asyncio.ensure_future(self._forward(request, raw, logged)))
        return await self._after(request, logged, reply)

    async def _forward(self, request: web.BaseRequest, raw: bytes, logged: Logged) -> Reply:
        reply = await self._upstream.exchange(logged.call.side, request, raw)
        self._take_note(logged.call, reply)
        if logged.call.writes:
            self._written.set()
        if 200 <= reply.status < 300:
            self._let_through_what_was_overtaken(logged.call)
        return reply

    def _take_note(self, call: Call, reply: Reply) -> None:
        """Records what the cloud created, and ids and reasons written to the status of workloads."""
        if call.side is Side.CLOUD and call.operation in _CREATES and 200 <= reply.status < 300:
            self.made[json.loads(reply.body)["id"]] = call.subject
        resource = call.operation.removeprefix("PATCH ").removesuffix("/status")
        if call.side is Side.KUBE and call.operation == f"PATCH {resource}/status" and resource in _WORKLOADS:
            written = json.loads(reply.body) if reply.status == 200 else {"metadata": {}}
            if resource in _PAID and written.get("status", {}).get("id"):
                self.recorded.add((written["metadata"]["uid"], written["status"]["id"]))
            known = Call(call.side, resource, call.subject, call.namespace)
            for condition in written.get("status", {}).get("conditions", []):
                if condition["type"] == "Ready":
                    self._reasons[known] = condition["reason"]

    async def _before(self, request: web.BaseRequest, raw: bytes, logged: Logged) -> web.StreamResponse | None:
        """Applies the part of a fault that precedes forwarding; returns an answer if nothing is to be forwarded."""
        match logged.fault and logged.fault.action:
            case rules.Drop():
                return _dropped(request)
            case rules.Hang(acted=False):
                await asyncio.Event().wait()
            case rules.Answer(acted=False) as answer:
                return await self._send(request, logged, _made_up(answer))
            case rules.Delay(seconds):
                await asyncio.sleep(seconds)
            case rules.Late(seconds):
                self._forward_later(seconds, request, raw, logged)
                return _dropped(request)
            case rules.Overtaken():
                self._overtaken.append((request, raw, logged))
                return _dropped(request)
            case rules.Hold(Moment.BEFORE) as hold:
                await self._hold(logged, hold)
                if hold.deed is rules.Deed.KILL_OPERATOR:  # The proxy may learn of the closed connection only later.
                    return _dropped(request)
        return None

    def _let_through_what_was_overtaken(self, call: Call) -> None:
        for one in [one for one in self._overtaken if call.overtakes(one[2].call)]:
            self._overtaken.remove(one)
            self._forward_later(0, *one)

    def _forward_later(self, seconds: float, request: web.BaseRequest, raw: bytes, logged: Logged) -> None:
        async def forward() -> None:
            await asyncio.sleep(seconds)
            with contextlib.suppress(UpstreamLost):
                reply = await self._forward(request, raw, logged)
                if 200 <= reply.status < 300 and isinstance(logged.fault and logged.fault.action, rules.Overtaken):
                    self.late.add(json.loads(reply.body)["id"])

        task = asyncio.create_task(forward())
        self._forwarding.add(task)
        task.add_done_callback(self._forwarding.discard)

    async def _after(self, request: web.BaseRequest, logged: Logged, reply: Reply) -> web.StreamResponse:
        """Applies the part of a fault that concerns the server's answer, and passes the answer on."""
        match logged.fault and logged.fault.action:
            case rules.LoseReply():
                return _dropped(request)
            case rules.Hang():
                await asyncio.Event().wait()
            case rules.Answer() as answer:
                reply = _made_up(answer)
            case rules.Truncate(keep):
                if not reply.body:
                    return _dropped(request)  # nothing of it could be missing
                return await self._send(request, logged, reply, keep=min(keep, len(reply.body) // 2))
            case rules.Drip(seconds):
                return await self._send(request, logged, reply, seconds=seconds)
            case rules.Hold(Moment.ACTED) as hold:
                await self._hold(logged, hold)
            case rules.Hold(Moment.DELIVERED) as hold:
                return await self._send_and_freeze(request, logged, reply, hold)
            case rules.BreakWatches() as how:
                self.break_watches(how)
        return await self._send(request, logged, reply)

    async def _hold(self, logged: Logged, action: rules.Hold) -> None:
        assert logged.fault is not None
        held = Held(logged.fault, action, logged.call)
        self.let_go_at = math.inf
        self.held.put_nowait(held)
        try:
            await held.until_released()
        finally:
            self.let_go_at = time.monotonic()

    async def _send_and_freeze(
        self, request: web.BaseRequest, logged: Logged, reply: Reply, action: rules.Hold
    ) -> web.StreamResponse:
        """Passes the answer on and blocks all further calls until the held call is released."""
        self._open_gate.clear()
        try:
            sent = await self._send(request, logged, reply)
            await self._hold(logged, action)
        finally:
            self._open_gate.set()
        return sent

    async def _send(
        self, request: web.BaseRequest, logged: Logged, reply: Reply, *, keep: int | None = None, seconds: float = 0
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        if request.method != "HEAD":  # the answer to HEAD has the length of a body that is not sent
            response.content_length = len(reply.body)
        logged.status = reply.status
        await response.prepare(request)
        step = max(len(reply.body) // _DRIP_STEPS, 1) if seconds else max(len(reply.body), 1)
        for start in range(0, len(reply.body[:keep]), step):
            await asyncio.sleep(seconds / _DRIP_STEPS)
            await response.write(reply.body[:keep][start : start + step])
        if keep is not None and keep < len(reply.body):
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write_eof()
        return response

    async def _watch(self, request: web.BaseRequest, logged: Logged) -> web.StreamResponse:
        """Passes a watch on line by line, so that it breaks between two events."""
        watch = _Watch(logged.call, asyncio.get_running_loop().create_future())
        async with self._upstream.stream(request) as upstream:
            response = web.StreamResponse(status=upstream.status, headers=passed_on(upstream.headers))
            response.headers.pop("Content-Length", None)
            logged.status = upstream.status
            await response.prepare(request)
            self._watches.add(watch)
            try:
                await self._stream(upstream, response, watch)
            finally:
                self._watches.discard(watch)
        how = watch.broken.result() if watch.broken.done() else rules.BreakWatches(Breakage.SILENT)
        match how.how:
            case Breakage.SILENT if watch.broken.done():
                return await self._be_silent(request, watch)
            case Breakage.CUT:
                return _dropped(request)
            case Breakage.ERROR:
                await response.write(_error_event(how.code))
        await response.write_eof()
        return response

    async def _be_silent(self, request: web.BaseRequest, watch: _Watch) -> web.StreamResponse:
        self._silent.add(watch)
        try:
            await watch.over.wait()
        finally:
            self._silent.discard(watch)
        return _dropped(request)

    async def _stream(self, upstream: aiohttp.ClientResponse, response: web.StreamResponse, watch: _Watch) -> None:
        """Passes events on until the server ends the stream or the watch is to break. Raises UpstreamLost."""
        while not watch.broken.done():
            reading: asyncio.Future[bytes] = asyncio.ensure_future(upstream.content.readline())
            try:
                either: set[asyncio.Future[Any]] = {reading, watch.broken}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                line = await reading if reading.done() else b""
            except ClientError as lost:
                raise UpstreamLost from lost
            finally:
                reading.cancel()
            if not line:
                return
            await response.write(line)


def _break(watch: _Watch, how: rules.BreakWatches) -> None:
    if not watch.broken.done():
        watch.broken.set_result(how)


def _made_up(answer: rules.Answer) -> Reply:
    headers = CIMultiDict(answer.headers)
    if "Content-Type" not in headers:
        headers["Content-Type"] = "application/json" if answer.body.startswith("{") else "text/html; charset=utf-8"
    return Reply(answer.status, headers, answer.body.encode())


def _error_event(code: int) -> bytes:
    reason = {410: "Expired", 500: "InternalError"}.get(code, "Unknown")
    return f'{{"type":"ERROR","object":{rules.kube_failure(code, reason, "a watch was made to fail")}}}\n'.encode()


def _dropped(request: web.BaseRequest) -> web.StreamResponse:
    """Cuts the connection; the returned response is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
