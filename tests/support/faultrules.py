"""What a fault proxy does wrong, and to which call. Plain data, so that it can be saved and replayed."""

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
# Identifiers of the local cloud: a prefix and hexadecimal digits.
_CLOUD_ID = re.compile(r"[a-z]+_[0-9a-f]{12,}")
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Side(StrEnum):
    """Which server a call was for."""

    KUBE = "kube"
    CLOUD = "cloud"
    INFERENCE = "inference"  # the same cloud's inference API
    STORE = "store"  # an S3 server


class Moment(StrEnum):
    """How far a call had come."""

    BEFORE = "before"  # nothing was forwarded
    ACTED = "acted"  # the server's whole answer is here, nothing of it was passed on
    DELIVERED = "delivered"  # the answer was passed on, and the next call waits


class Deed(StrEnum):
    """What is done to a process while a call is held; the proxy only tells, somebody else does it."""

    KILL_OPERATOR = "kill-operator"  # SIGKILL
    TERMINATE_OPERATOR = "terminate-operator"  # SIGTERM
    FREEZE_OPERATOR = "freeze-operator"  # SIGSTOP until another one leads and the call goes on, then SIGCONT
    RESTART_API_SERVER = "restart-api-server"  # SIGKILL, and started again
    NONE = "none"


class Breakage(StrEnum):
    """How a watch breaks."""

    ERROR = "error"  # an ERROR event, then the end
    SILENT = "silent"  # it stays open and tells nothing any more
    CUT = "cut"  # the connection is gone


@dataclass(frozen=True)
class Drop:
    """The connection is dropped; nothing was forwarded."""


@dataclass(frozen=True)
class LoseReply:
    """The server acts and answers in full; then the connection is dropped without a byte of the answer."""


@dataclass(frozen=True)
class Answer:
    """This answer in place of the server's; `acted`: the server gets the request all the same."""

    status: int
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    acted: bool = False


@dataclass(frozen=True)
class Truncate:
    """The server's answer breaks off after so many bytes of its body."""

    keep: int


@dataclass(frozen=True)
class Delay:
    """The request is forwarded so many seconds later."""

    seconds: float


@dataclass(frozen=True)
class Late:
    """The connection is dropped at once, and the server gets the request so many seconds later all the same."""

    seconds: float


@dataclass(frozen=True)
class Overtaken:
    """The connection is dropped at once, and the server gets the request only when it has answered the next attempt.

    Of creates, whose names end with the number of the attempt. What meets no next attempt never gets there.
    """


@dataclass(frozen=True)
class Drip:
    """The answer's body arrives byte by byte, over so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Hang:
    """Never answered while the caller waits; `acted`: the server got the request."""

    acted: bool = False


@dataclass(frozen=True)
class Hold:
    """The call waits at this moment until it is released; meanwhile the deed is done."""

    when: Moment
    deed: Deed


@dataclass(frozen=True)
class BreakWatches:
    """Every watch open at the time breaks, once the server has acted; `code` is that of the ERROR event."""

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

    `operation` is `PATCH gpupods/status` or `POST /v1/vms/{id}/stop`; of Kubernetes, reads are GET, LIST and WATCH.
    `subject` is the object's name, or the cloud's id; a cloud's create has the name that it asks for. `phase` is what
    people did last, `state` how the workloads stood by what the operator wrote last.
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
        """Whether it is another attempt at the same create."""
        stems = {_ATTEMPT.sub("", call.subject) for call in (self, earlier)}
        return self.operation == earlier.operation and len(stems) == 1 and self.subject != earlier.subject

    @property
    def writes(self) -> bool:
        """Whether the call asks for a change."""
        return self.operation.partition(" ")[0] in _WRITES


@dataclass(frozen=True)
class Rule:
    """Does something to the nth call (from 1) that matches, and to `times - 1` more after it; 0 times: to all after it.

    Texts are patterns of fnmatch, in which `[` is not special.
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
        """Whether the call is one of those that are counted."""
        return (
            call.side is self.side
            and fnmatchcase(call.operation, self.operation.replace("[", "[[]"))
            and fnmatchcase(call.subject, self.subject)
            and fnmatchcase(call.phase, self.phase)
            and fnmatchcase(call.state, self.state)
        )

    def as_json(self) -> Json:
        """A form that `from_json` reads."""
        return {**asdict(self), "action": {"do": type(self.action).__name__, **asdict(self.action)}}

    @classmethod
    def from_json(cls, data: Json) -> Rule:
        """Reads what `as_json` wrote, also after JSON made lists of its tuples."""
        values = dict(data["action"])
        kind = _ACTIONS[values.pop("do")]
        enums = {"when": Moment, "deed": Deed, "how": Breakage}
        values = {name: enums[name](value) if name in enums else value for name, value in values.items()}
        if "headers" in values:
            values["headers"] = tuple((str(name), str(value)) for name, value in values["headers"])
        return cls(**{**data, "side": Side(data["side"]), "action": kind(**values)})


@dataclass
class Armed:
    """A rule and how many calls it has counted and met."""

    rule: Rule
    seen: int = 0
    met: int = 0

    def meets(self, call: Call) -> bool:
        """Counts the call where it matches; whether the rule applies to it."""
        if not self.rule.matches(call):
            return False
        self.seen += 1
        late = self.rule.times and self.seen >= self.rule.nth + self.rule.times
        applies = self.seen >= self.rule.nth and not late
        self.met += applies
        return applies


@dataclass
class Logged:
    """A call as it went: `status` is what the caller was answered (0: nothing), `fault` the rule that met it."""

    seq: int
    call: Call
    body: Json = field(repr=False)
    status: int = 0
    fault: Rule | None = None


def kube_call(method: str, path: str, query: Mapping[str, str], body: Json) -> Call:
    """Names a request to the Kubernetes API."""
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
    named = body.get("regarding") or body.get("metadata") or {}  # an Event's own name is made up each time
    subject = name or str(named.get("name", ""))
    return Call(Side.KUBE, f"{verb} {resource}", subject, namespace)


def cloud_call(method: str, path: str, body: Json, side: Side = Side.CLOUD) -> Call:
    """Names a request to the management API, or to the inference API."""
    ids = [part for part in path.split("/") if _CLOUD_ID.fullmatch(part)]
    template = "/".join("{id}" if _CLOUD_ID.fullmatch(part) else part for part in path.split("/"))
    subject = str(body.get("name") or "") or (ids[-1] if ids else "")
    return Call(side, f"{method} {template}", subject)


def store_call(method: str, path: str, query: Mapping[str, str]) -> Call:
    """Names a request to an S3 server: what it is about, and the key."""
    part = {"PUT": "part", "POST": "parts"}.get(method, "upload")
    what = "uploads" if "uploads" in query else part if "uploadId" in query else "object"
    return Call(Side.STORE, f"{method} {what}", path.strip("/").partition("/")[2])


def kube_failure(status: int, reason: str, message: str) -> str:
    """The body of a refusal by the Kubernetes API, also the object of a watch's ERROR event."""
    failure = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return json.dumps({**failure, "code": status, "reason": reason, "message": message})
