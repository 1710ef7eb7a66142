"""A small API server on a real socket: objects in memory, the rules of Kubernetes that the engine relies on, faults.

tests/cluster/harness/test_fake_api_server.py asks it and a real one the same. What it does not do, and the real one
does: watches, selectors, server-side apply, managedFields, the dropping of fields that the CRD does not know; and the
real one stores the default of a status with the first patch, which therefore gives a new version in any case.
"""

import base64
import copy
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web
from pydantic import JsonValue

from relay_operator.crds import DEFINITIONS

Json = dict[str, JsonValue]
Validate = Callable[[Json], str | None]
"""Why the object cannot be stored; None where it can."""
MERGE_PATCH, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
Answer = tuple[int, Json]
_OURS = frozenset(definition.plural for definition in DEFINITIONS)
"""Kinds of CRDs: they have a generation, and a status of its own with a default."""
_IMMUTABLE = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")
_BY_THE_SERVER = ("resourceVersion", "generation", "creationTimestamp")
_LEFT_OUT_IF_EMPTY = ("annotations", "finalizers", "labels", "ownerReferences")


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
        self._validate: Validate = lambda raw: _too_much_data(raw) or validate(raw)
        self._revision = 100
        self._uids = 0

    async def start(self) -> web.AppRunner:
        """Listens on a free port of this machine; the caller cleans the runner up."""
        app = web.Application(client_max_size=3 * 2**20)
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
        """What somebody else creates; its status and what the server sets are as it says, if it does."""
        raw = copy.deepcopy(raw)
        metadata = part(raw, "metadata")
        self._uids += 1
        metadata.setdefault("uid", f"0000000{self._uids}-aaaa-bbbb-cccc-dddddddddddd")
        metadata.setdefault("creationTimestamp", _text(self._now()))
        if plural in _OURS:
            metadata.setdefault("generation", 1)
        return self._store(_key(plural, raw), raw, "ADDED")

    def edit(self, plural: str, namespace: str, name: str, patch: Json, *, status: bool = False) -> Json:
        """What somebody else changes, whether or not the CRD would take it."""
        key = (plural, namespace, name)
        code, answer = self._changed(key, _merged(self.objects[key], patch), status=status)
        assert code == 200, answer
        return answer

    def remove(self, plural: str, namespace: str, name: str, *, force: bool = False) -> None:
        """What somebody else deletes; finalizers hold it, unless they are forced off."""
        key = (plural, namespace, name)
        raw = copy.deepcopy(self.objects[key])
        metadata = part(raw, "metadata")
        held = bool(metadata.get("finalizers"))
        if held and "deletionTimestamp" not in metadata:
            metadata |= {"deletionTimestamp": _text(self._now()), "deletionGracePeriodSeconds": 0}
            if plural in _OURS:
                metadata["generation"] = number(metadata["generation"]) + 1
            self._store(key, raw, "MODIFIED")
        if force or not held:
            self.vanish(*key)

    def vanish(self, plural: str, namespace: str, name: str) -> None:
        """It goes at once: so does what is deleted in the very moment in which its finalizer is written.

        What is told of it is how it was stored last, with a version of its own.
        """
        raw = self.objects.pop((plural, namespace, name))
        self.on_change("DELETED", _merged(raw, {"metadata": {"resourceVersion": self._next_version()}}))

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

    def _act(self, call: Call) -> Answer:
        key = (call.plural, call.namespace, call.name)
        if call.method == "POST":
            return self._create(call, json.loads(call.body))
        if call.method == "GET" and not call.name:
            return 200, self._list(call)
        if key not in self.objects:
            return _refusal(404, "NotFound", f"{call.plural} {call.name!r} not found")
        match call.method:
            case "GET":
                return 200, self.objects[key]
            case "DELETE":
                return self._delete(key, json.loads(call.body or "{}"))
            case _:
                return self._patch(key, call)

    def _create(self, call: Call, body: Json) -> Answer:
        metadata = part(body, "metadata")
        metadata.setdefault("namespace", call.namespace)
        key = _key(call.plural, body)
        if ("namespaces", "", call.namespace) not in self.objects:
            return _refusal(404, "NotFound", f"namespaces {call.namespace!r} not found")
        if "resourceVersion" in metadata:
            return _refusal(500, "", "resourceVersion should not be set on objects to be created")
        for name in (*_IMMUTABLE, *_BY_THE_SERVER):
            metadata.pop(name, None)
        if call.plural in _OURS:
            body.pop("status", None)
        invalid = self._validate(body)
        if invalid is not None:
            return _refusal(422, "Invalid", invalid)
        if key in self.objects:
            return _refusal(409, "AlreadyExists", f"{call.plural} {key[2]!r} already exists")
        return 201, body if ("dryRun", "All") in call.query else self.put(call.plural, body)

    def _list(self, call: Call) -> Json:
        query = dict(call.query)
        found = [
            copy.deepcopy(raw)
            for (plural, namespace, _), raw in sorted(self.objects.items())
            if plural == call.plural and call.namespace in ("", namespace)
        ]
        if call.plural not in _OURS:
            for raw in found:
                raw.pop("kind", None)
                raw.pop("apiVersion", None)
        start = int(query.get("continue", "0"))
        end = start + int(query.get("limit", len(found)))
        items: list[JsonValue] = [*found[start:end]]
        token = str(end) if end < len(found) else ""
        return {"metadata": {"resourceVersion": str(self._revision), "continue": token}, "items": items}

    def _delete(self, key: tuple[str, str, str], body: Json) -> Answer:
        metadata = part(self.objects[key], "metadata")
        for name, asked in part(body, "preconditions").items():
            if asked != metadata[name]:
                return _refusal(409, "Conflict", f"{name} in precondition: {asked}, in object meta: {metadata[name]}")
        self.remove(*key)
        return 200, self.objects.get(key, {"kind": "Status", "status": "Success"})

    def _patch(self, key: tuple[str, str, str], call: Call) -> Answer:
        before, patch = self.objects[key], json.loads(call.body)
        kind = {name.lower(): value for name, value in call.headers}.get("content-type")
        if kind not in (MERGE_PATCH, JSON_PATCH):
            return _refusal(415, "UnsupportedMediaType", f"{kind} is not a patch")
        asked = _merged(before, patch) if kind == MERGE_PATCH else _operated(before, patch)
        if asked is None:
            return _refusal(422, "Invalid", "the server rejected our request due to an error in our request")
        return self._changed(key, asked, status=call.status_write, validate=self._validate)

    def _changed(
        self, key: tuple[str, str, str], asked: Json, *, status: bool, validate: Validate = lambda _: None
    ) -> Answer:
        """Stores what is asked for, as far as it may be changed. Of a patch of a status, the uid is ignored."""
        before = self.objects[key]
        metadata, known = part(asked, "metadata"), part(before, "metadata")
        if key[0] in _OURS and "resourceVersion" not in metadata:
            return _refusal(422, "Invalid", "metadata.resourceVersion: must be specified for an update")
        if metadata.get("resourceVersion", known["resourceVersion"]) != known["resourceVersion"]:
            return _refusal(409, "Conflict", "the object has been modified; please apply your changes")
        if status:
            after = copy.deepcopy(before) | {"status": asked.get("status", {})}
        else:
            after = asked | ({"status": before["status"]} if "status" in before else {})
            immutable = _settled_metadata(metadata, known)
            if immutable:
                return _refusal(422, "Invalid", immutable)
        if key[0] in _OURS:
            part(after, "status").setdefault("observedGeneration", -1)
            if after.get("spec") != before.get("spec"):
                part(after, "metadata")["generation"] = number(known["generation"]) + 1
        invalid = validate(after)
        if invalid is not None and validate(before) is None:  # what was invalid before is let be
            return _refusal(422, "Invalid", invalid)
        if after == before:
            return 200, copy.deepcopy(before)
        if "deletionTimestamp" in known and not _finalizers(part(after, "metadata")):
            self.vanish(*key)
            return 200, after
        return 200, self._store(key, after, "MODIFIED")

    def _store(self, key: tuple[str, str, str], raw: Json, event: str) -> Json:
        part(raw, "metadata")["resourceVersion"] = self._next_version()
        if key[0] in _OURS:
            part(raw, "status").setdefault("observedGeneration", -1)
        self.objects[key] = raw
        self.on_change(event, copy.deepcopy(raw))
        return copy.deepcopy(raw)

    def _next_version(self) -> str:
        self._revision += 1
        return str(self._revision)


def _settled_metadata(metadata: Json, known: Json) -> str:
    """Puts what only the server sets into metadata as it is known; why it cannot be changed, or nothing."""
    for name in _IMMUTABLE:
        if name in known:
            metadata.setdefault(name, known[name])
        if metadata.get(name) != known.get(name):
            return f"metadata.{name}: field is immutable"
    metadata |= {name: known[name] for name in _BY_THE_SERVER if name in known}
    added = [one for one in _finalizers(metadata) if one not in _finalizers(known)]
    if "deletionTimestamp" in known and added:
        return f"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted: {added}"
    for name in _LEFT_OUT_IF_EMPTY:
        if not metadata.get(name, True):
            del metadata[name]
    return ""


def _finalizers(metadata: Json) -> list[JsonValue]:
    value = metadata.get("finalizers")
    return value if isinstance(value, list) else []


async def _call(request: web.Request) -> Call:
    parts = request.match_info["path"].split("/")
    rest = (parts[2:] if parts[0] == "api" else parts[3:]) or [""]  # of a group: what kinds it has
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


def _operated(before: Json, operations: list[dict[str, JsonValue]]) -> Json | None:
    """RFC 6902 for paths through mappings, as the API server reads it: what is missing equals null, and is replaced."""
    after = copy.deepcopy(before)
    for operation in operations:
        *parents, last = [one.replace("~1", "/").replace("~0", "~") for one in str(operation["path"]).split("/")[1:]]
        inside: JsonValue = after
        for name in parents:
            inside = inside.get(name) if isinstance(inside, dict) else None
        if not isinstance(inside, dict):
            return None
        match operation["op"]:
            case "test" if inside.get(last) != operation["value"]:
                return None
            case "remove" if last not in inside:
                return None
            case "remove":
                del inside[last]
            case "add" | "replace":
                inside[last] = operation["value"]
            case _:
                pass
    return after


def _too_much_data(raw: Json) -> str | None:
    """What a ConfigMap is refused for."""
    data = raw.get("data")
    size = sum(len(str(text).encode()) for text in data.values()) if isinstance(data, dict) else 0
    return None if size <= 2**20 else "[]: Too long: may not be more than 1048576 bytes"


def _refusal(status: int, reason: str, message: str) -> Answer:
    known: Json = {"reason": reason} if reason else {}
    return status, {"kind": "Status", "status": "Failure", "message": message, "code": status, **known}


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def encoded(**values: str) -> dict[str, JsonValue]:
    """The `data` of a Secret with these values."""
    return {name: base64.b64encode(value.encode()).decode() for name, value in values.items()}
