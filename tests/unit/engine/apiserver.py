"""A small API server on a real socket: objects in memory, the rules of Kubernetes that the engine relies on, faults."""

import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web
from pydantic import JsonValue

Json = dict[str, JsonValue]
Validate = Callable[[Json], str | None]
"""Why the object cannot be stored; None where it can."""


@dataclass
class Fault:
    """What happens to the next requests that fit; empty and None fit everything."""

    status: int = 500
    """0 hangs up."""
    method: str = ""
    plural: str = ""
    status_write: bool | None = None
    times: int = 1
    acted: bool = False
    """The request is carried out, and only its answer is lost."""
    body: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def fits(self, call: "Call") -> bool:
        return (
            self.times > 0
            and self.method in ("", call.method)
            and self.plural in ("", call.plural)
            and self.status_write in (None, call.status_write)
        )


def metadata_fault(status: int, *, times: int = 1, acted: bool = False) -> Fault:
    """Happens to writes of a pod's intent and finalizer."""
    return Fault(status, method="PATCH", plural="gpupods", status_write=False, times=times, acted=acted)


def status_fault(status: int, *, times: int = 1, acted: bool = False) -> Fault:
    """Happens to writes of a pod's status."""
    return Fault(status, method="PATCH", plural="gpupods", status_write=True, times=times, acted=acted)


@dataclass(frozen=True)
class Call:
    """One request as it arrived."""

    method: str
    plural: str
    namespace: str
    name: str
    status_write: bool
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: str


class ApiServer:
    """Stores what it is given under (plural, namespace, name); tells `on_change` of every change, as a watch would."""

    def __init__(self, *, now: Callable[[], datetime], validate: Validate = lambda _: None) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.url = ""
        self.on_change: Callable[[str, Json], None] = lambda _event, _raw: None
        self.before: Callable[[Call], None] = lambda _call: None
        """Called before a request is looked at: what somebody else does just then."""
        self.answers: list[int] = []
        self._now = now
        self._validate = validate
        self._revision = itertools.count(100)
        self._uids = itertools.count(1)

    async def start(self) -> web.AppRunner:
        """Listens on a free port of this machine; the caller cleans the runner up."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    @property
    def writes(self) -> list[str]:
        """Method and plural of every write, with `/status` where it was one."""
        return [
            f"{call.method} {call.plural}{'/status' if call.status_write else ''}"
            for call in self.calls
            if call.method != "GET"
        ]

    def put(self, plural: str, raw: Json) -> Json:
        """What somebody else creates."""
        raw = copy.deepcopy(raw)
        metadata = part(raw, "metadata")
        metadata.setdefault("uid", f"0000000{next(self._uids)}-aaaa-bbbb-cccc-dddddddddddd")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", _text(self._now()))
        return self._store(_key(plural, raw), raw, "ADDED")

    def edit(self, plural: str, namespace: str, name: str, patch: Json, *, status: bool = False) -> Json:
        """What somebody else changes, without preconditions."""
        return self._patched((plural, namespace, name), patch, status=status)

    def remove(self, plural: str, namespace: str, name: str, *, force: bool = False) -> None:
        """What somebody else deletes; finalizers hold it, unless they are forced off."""
        key = (plural, namespace, name)
        raw = self.objects[key]
        metadata = part(raw, "metadata")
        if metadata.get("finalizers"):
            metadata["deletionTimestamp"] = _text(self._now())
            metadata["generation"] = number(metadata["generation"]) + 1
            self._store(key, raw, "MODIFIED")
            if not force:
                return
        self.vanish(*key)

    def vanish(self, plural: str, namespace: str, name: str) -> None:
        """It goes at once: so does what is deleted in the very moment in which its finalizer is written."""
        key = (plural, namespace, name)
        raw = self.objects[key]
        del self.objects[key]
        self.on_change("DELETED", copy.deepcopy(raw))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        call = await _call(request)
        self.calls.append(call)
        self.before(call)
        fault = next((fault for fault in self.faults if fault.fits(call)), None)
        answer = self._act(call) if fault is None or fault.acted else None
        if fault is not None:
            fault.times -= 1
            if fault.status == 0 and request.transport is not None:
                request.transport.close()
            reply = json.dumps({"kind": "Status", "reason": "Scripted", "message": "scripted"})
            text = reply if fault.body is None else fault.body
            return web.Response(status=fault.status or 500, text=text, headers=fault.headers)
        assert answer is not None
        self.answers.append(answer[0])
        return web.json_response(answer[1], status=answer[0])

    def _act(self, call: Call) -> tuple[int, Json]:
        key = (call.plural, call.namespace, call.name)
        body: Json = json.loads(call.body) if call.body else {}
        if call.method == "POST":
            return self._create(call, body)
        if call.method == "GET" and not call.name:
            return 200, self._list(call)
        if key not in self.objects:
            return _refusal(404, "NotFound", f"{call.plural} {call.name!r} not found")
        if call.method == "GET":
            return 200, self.objects[key]
        conflict = self._conflict(key, body, call)
        if conflict is not None:
            return _refusal(409, "Conflict", conflict)
        if call.method == "DELETE":
            self.remove(*key)
            return 200, {"kind": "Status", "status": "Success"}
        invalid = self._validate(_merged(self.objects[key], body))
        if invalid is not None and self._validate(self.objects[key]) is None:  # what was invalid before is let be
            return _refusal(422, "Invalid", invalid)
        return 200, self._patched(key, body, status=call.status_write)

    def _create(self, call: Call, body: Json) -> tuple[int, Json]:
        part(body, "metadata").setdefault("namespace", call.namespace)
        key = _key(call.plural, body)
        if key in self.objects:
            return _refusal(409, "AlreadyExists", f"{call.plural} {key[2]!r} already exists")
        return 201, self.put(call.plural, body)

    def _list(self, call: Call) -> Json:
        query = dict(call.query)
        found = [
            raw
            for (plural, namespace, _), raw in self.objects.items()
            if plural == call.plural and call.namespace in ("", namespace)
        ]
        start, limit = int(query.get("continue", "0")), int(query.get("limit", "500"))
        rest = start + limit < len(found)
        items: list[JsonValue] = [copy.deepcopy(raw) for raw in found[start : start + limit]]
        return {"metadata": {"continue": str(start + limit)} if rest else {}, "items": items}

    def _conflict(self, key: tuple[str, str, str], body: Json, call: Call) -> str | None:
        metadata = part(self.objects[key], "metadata")
        asked = part(body, "preconditions") if call.method == "DELETE" else part(body, "metadata")
        for name in ("resourceVersion", "uid"):
            if name in asked and asked[name] != metadata[name]:
                return f"{name} in precondition: {asked[name]}, in object meta: {metadata[name]}"
        return None

    def _patched(self, key: tuple[str, str, str], patch: Json, *, status: bool) -> Json:
        before = self.objects[key]
        relevant = {"status": patch.get("status", {})} if status else {k: v for k, v in patch.items() if k != "status"}
        after = _merged(before, relevant)
        metadata = part(after, "metadata")
        for name in ("resourceVersion", "uid", "generation"):
            metadata[name] = part(before, "metadata")[name]
        if after == before:
            return copy.deepcopy(before)
        if after.get("spec") != before.get("spec"):
            metadata["generation"] = number(metadata["generation"]) + 1
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            del self.objects[key]
            self.on_change("DELETED", copy.deepcopy(after))
            return after
        return self._store(key, after, "MODIFIED")

    def _store(self, key: tuple[str, str, str], raw: Json, event: str) -> Json:
        part(raw, "metadata")["resourceVersion"] = str(next(self._revision))
        self.objects[key] = raw
        self.on_change(event, copy.deepcopy(raw))
        return copy.deepcopy(raw)


async def _call(request: web.Request) -> Call:
    parts = request.match_info["path"].split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return Call(
        method=request.method,
        plural=rest[0],
        namespace=namespace,
        name=rest[1] if len(rest) > 1 else "",
        status_write=rest[2:] == ["status"],
        query=tuple(request.query.items()),
        headers=tuple(request.headers.items()),
        body=await request.text(),
    )


def part(raw: Json, name: str) -> Json:
    """A mapping inside the object, made where it is missing."""
    value = raw.setdefault(name, {})
    assert isinstance(value, dict)
    return value


def number(value: JsonValue) -> int:
    assert isinstance(value, int)
    return value


def _key(plural: str, raw: Json) -> tuple[str, str, str]:
    metadata = part(raw, "metadata")
    return plural, str(metadata.get("namespace") or ""), str(metadata["name"])


def _merged(before: Json, patch: Json) -> Json:
    """RFC 7386."""
    after = copy.deepcopy(before)
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        elif isinstance(value, dict):
            old = after.get(name)
            after[name] = _merged(old if isinstance(old, dict) else {}, value)
        else:
            after[name] = value
    return after


def _refusal(status: int, reason: str, message: str) -> tuple[int, Json]:
    return status, {"kind": "Status", "status": "Failure", "reason": reason, "message": message, "code": status}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
