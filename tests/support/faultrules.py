"""Rules of a fault proxy: which fault to inject into which call. Plain data, so that runs can be saved and replayed."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = dict[str, Any]
# Ids of the local cloud: a prefix and hexadecimal digits.
_CLOUD_ID = re.compile(r"[a-z]+_[0-9a-f]{12,}")
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Side(StrEnum):
    """The server that a call is for."""

    KUBE = "kube"
    CLOUD = "cloud"
    INFERENCE = "inference"  # the same cloud's inference API
    STORE = "store"  # an S3 server


class Moment(StrEnum):
    """How far a call has come."""

    BEFORE = "before"  # nothing has been forwarded
    ACTED = "acted"  # the server's whole answer has arrived, nothing of it has been passed on
    DELIVERED = "delivered"  # the answer has been passed on, and the next call waits


class Deed(StrEnum):
    """What is to be done to a process while a call is held; the proxy only announces it, the test does it."""

    KILL_OPERATOR = "kill-operator"  # SIGKILL
    TERMINATE_OPERATOR = "terminate-operator"  # SIGTERM
    FREEZE_OPERATOR = "freeze-operator"  # SIGSTOP until another replica leads and the call continues, then SIGCONT
    RESTART_API_SERVER = "restart-api-server"  # SIGKILL, then a new start
    NONE = "none"


class Breakage(StrEnum):
    """How a watch breaks."""

    ERROR = "error"  # an ERROR event, then the end
    SILENT = "silent"  # it stays open without further events
    CUT = "cut"  # the connection is cut


@dataclass(frozen=True)
class Drop:
    """The connection is dropped; nothing is forwarded."""


@dataclass(frozen=True)
class LoseReply:
    """The server acts and answers in full; then the connection is dropped without a byte of the answer."""


@dataclass(frozen=True)
class Answer:
    """The caller gets this answer instead of the server's; with `acted`, the server still gets the request."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    acted: bool = False


@dataclass(frozen=True)
class Truncate:
    """The server's answer is cut after `keep` bytes of its body."""

    keep: int


@dataclass(frozen=True)
class Delay:
    """The request is forwarded after a delay."""

    seconds: float


@dataclass(frozen=True)
class Late:
    """The connection is dropped at once, but the server gets the request after a delay."""

    seconds: float


@dataclass(frozen=True)
class Overtaken:
    """The connection is dropped at once; the server gets the request only after it has answered another attempt.

    For creates, whose names end with the number of the attempt. Without another attempt it is never forwarded.
    """


@dataclass(frozen=True)
class Drip:
    """The answer's body arrives in small pieces, spread over so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Hang:
    """The caller never gets an answer; with `acted`, the server gets the request."""

    acted: bool = False


@dataclass(frozen=True)
class Hold:
    """The call waits at this moment until it is released; meanwhile the test does the deed."""

    when: Moment
    deed: Deed


@dataclass(frozen=True)
class BreakWatches:
    """Every open watch breaks once the server has acted on the call; `code` is that of the ERROR event."""

    how: Breakage
    code: int = 0


Action = Drop | LoseReply | Answer | Truncate | Delay | Late | Overtaken | Drip | Hang | Hold | BreakWatches
_ACTIONS: Mapping[str, type[Action]] = {
    kind.__name__: kind
    for kind in (Drop, LoseReply, Answer, Truncate, Delay, Late, Overtaken, Drip, Hang, Hold, BreakWatches)
}
_ATTEMPT = re.compile(r"-\d{1,3}$")


@dataclass(frozen=True)
class Call:
    """One request, named so that the same step of another run has the same name.

    `operation` is for example `PATCH gpupods/status` or `POST /v1/vms/{id}/stop`; reads from Kubernetes are GET, LIST
    and WATCH. `subject` is the object's name or the cloud id; for a create in the cloud, the requested name. `phase` is
    the last step of the scenario's users, `state` the reasons of Ready that the operator wrote last.
    """

    side: Side
    operation: str
    subject: str = ""
    namespace: str = ""
    phase: str = ""
    state: str = ""

    def __str__(self) -> str:
        return f"{self.side}: {self.operation} {self.subject}".rstrip()

    def overtakes(self, earlier: Call) -> bool:
        """Whether the call is another attempt at the create of `earlier`."""
        stems = {_ATTEMPT.sub("", call.subject) for call in (self, earlier)}
        return self.operation == earlier.operation and len(stems) == 1 and self.subject != earlier.subject

    @property
    def writes(self) -> bool:
        """Whether the method is one that changes something."""
        return self.operation.partition(" ")[0] in _WRITES


@dataclass(frozen=True)
class Rule:
    """Applies `action` to the nth matching call (from 1) and the `times - 1` after it; `times=0` means all after it.

    Texts are fnmatch patterns; in `operation`, `[` is not special.
    """

    side: Side
    operation: str
    action: Action
    subject: str = "*"
    nth: int = 1
    times: int = 1
    phase: str = "*"
    state: str = "*"

    def __str__(self) -> str:
        call = f"{self.side}: {self.operation} {self.subject}".removesuffix(" *")
        when = "" if self.phase == self.state == "*" else f" ({self.phase}, {self.state})"
        return f"{self.action} at {call}{when} #{self.nth}" + ("" if self.times == 1 else f" x{self.times or 'all'}")

    def matches(self, call: Call) -> bool:
        """Whether the call counts towards `nth`."""
        return (
            call.side is self.side
            and fnmatchcase(call.operation, self.operation.replace("[", "[[]"))
            and fnmatchcase(call.subject, self.subject)
            and fnmatchcase(call.phase, self.phase)
            and fnmatchcase(call.state, self.state)
        )

    def as_json(self) -> Json:
        """Returns the rule as JSON for `from_json`."""
        return {**asdict(self), "action": {"do": type(self.action).__name__, **asdict(self.action)}}

    @classmethod
    def from_json(cls, data: Json) -> Rule:
        """Reads what `as_json` returned, also after JSON turned tuples into lists."""
        values = dict(data["action"])
        kind = _ACTIONS[values.pop("do")]
        enums = {"when": Moment, "deed": Deed, "how": Breakage}
        values = {name: enums[name](value) if name in enums else value for name, value in values.items()}
        if "headers" in values:
            values["headers"] = tuple((str(name), str(value)) for name, value in values["headers"])
        return cls(**{**data, "side": Side(data["side"]), "action": kind(**values)})


@dataclass
class Armed:
    """A rule with the number of calls that matched (`seen`) and to which it applied (`met`)."""

    rule: Rule
    seen: int = 0
    met: int = 0

    def meets(self, call: Call) -> bool:
        """Counts the call if it matches; returns whether the rule applies to it."""
        if not self.rule.matches(call):
            return False
        self.seen += 1
        late = self.rule.times and self.seen >= self.rule.nth + self.rule.times
        applies = self.seen >= self.rule.nth and not late
        self.met += applies
        return applies


@dataclass
class Logged:
    """A call and its outcome: `status` is the HTTP status that the caller got (0: none), `fault` the applied rule."""

    seq: int
    call: Call
    body: Json = field(repr=False)
    status: int = 0
    fault: Rule | None = None


def kube_call(method: str, path: str, query: Mapping[str, str], body: Json) -> Call:
    """Returns the name of a request to the Kubernetes API."""
    parts = path.strip("/").split("/")
    skipped = {"api": 2, "apis": 3}.get(parts[0])
    if skipped is None or len(parts) <= skipped:
        return Call(Side.KUBE, f"{method} {path}")
    rest, namespace = parts[skipped:], ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    verb = ("GET" if name else "LIST") if method == "GET" else method
    verb = "WATCH" if query.get("watch") in {"1", "true"} else verb
    resource = rest[0] + (f"/{rest[2]}" if len(rest) > 2 else "")
    named = body.get("regarding") or body.get("metadata") or {}  # an Event's own name is random
    subject = name or str(named.get("name", ""))
    return Call(Side.KUBE, f"{verb} {resource}", subject, namespace)


def cloud_call(method: str, path: str, body: Json, side: Side = Side.CLOUD) -> Call:
    """Returns the name of a request to the management API or the inference API."""
    ids = [part for part in path.split("/") if _CLOUD_ID.fullmatch(part)]
    template = "/".join("{id}" if _CLOUD_ID.fullmatch(part) else part for part in path.split("/"))
    subject = str(body.get("name") or "") or (ids[-1] if ids else "")
    return Call(side, f"{method} {template}", subject)


def store_call(method: str, path: str, query: Mapping[str, str]) -> Call:
    """Returns the name of a request to an S3 server: the method with what it concerns, and the object's key."""
    part = {"PUT": "part", "POST": "parts"}.get(method, "upload")
    what = "uploads" if "uploads" in query else part if "uploadId" in query else "object"
    return Call(Side.STORE, f"{method} {what}", path.strip("/").partition("/")[2])


def kube_failure(status: int, reason: str, message: str) -> str:
    """Returns the Status of a Kubernetes refusal as JSON: the body of a reply, or the object of an ERROR event."""
    failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps({**failure, "code": status, "reason": reason, "message": message})
