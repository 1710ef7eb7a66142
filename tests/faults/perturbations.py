"""The table of faults for one request, by its server and by what it asks for."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tests.support.faultrules import (
    Action,
    Answer,
    Breakage,
    BreakWatches,
    Deed,
    Drop,
    Hang,
    Hold,
    Late,
    LoseReply,
    Moment,
    Overtaken,
    Side,
    Truncate,
    kube_failure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.faultrules import Call


class Asks(StrEnum):
    """The sort of a request."""

    READ = "read"
    LIST = "list"
    WATCH = "watch"
    WRITE = "write"

    @classmethod
    def by(cls, call: Call) -> Asks:
        """Returns the sort of a call by its operation's verb."""
        match call.operation.partition(" ")[0]:
            case "LIST":
                return cls.LIST
            case "WATCH":
                return cls.WATCH
            case "GET" | "HEAD":
                return cls.READ
        return cls.WRITE


# Less than the time after which absence counts in plans (`absence_after_unknown_seconds` in `stage.QUICK`).
LATE_SECONDS: Final = 1.5


def _refusal(status: int, code: str, **headers: str) -> Answer:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(status, f'{{"error": "made up", "code": "{code}"}}', named)


def _kube(status: int, reason: str, **headers: str) -> Answer:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(status, kube_failure(status, reason, "made up"), named)


_BEFORE, _ACTED, _DELIVERED = (Hold(when, Deed.KILL_OPERATOR) for when in Moment)
KILLS: Final[Mapping[str, Action]] = {
    "killed before it is sent": _BEFORE,
    "killed after it was acted on": _ACTED,
    "killed after the answer": _DELIVERED,
}
TERMINATIONS: Final[Mapping[str, Action]] = {
    "told to stop before it is acted on": Hold(Moment.BEFORE, Deed.TERMINATE_OPERATOR),
    "told to stop before its answer": Hold(Moment.ACTED, Deed.TERMINATE_OPERATOR),
}
FREEZES: Final[Mapping[str, Action]] = {
    "frozen, let through before": Hold(Moment.ACTED, Deed.FREEZE_OPERATOR),
    "frozen, let through after": Hold(Moment.BEFORE, Deed.FREEZE_OPERATOR),
}
ALWAYS: Final = frozenset({"killed after it was acted on", "killed after the answer", "answer lost", *FREEZES})
"""The faults of a create that every sample plays."""
# Nothing changes between two writes, so a kill during a read equals one after the preceding write. An operator frozen
# during a read acts on old facts; reads from servers other than the cloud decide nothing about the cloud's resources.
_OF_READS: Final[Mapping[str, Action]] = {
    "killed meanwhile": _ACTED,
    "read while frozen": FREEZES["frozen, let through before"],
}
_OF_LOOKS: Final[Mapping[str, Action]] = {
    "killed meanwhile": _ACTED,
    "frozen, let through before": FREEZES["frozen, let through before"],
}
_UNHEARD: Final[Mapping[str, Action]] = {"answer lost": LoseReply(), "cut": Truncate(20)}
_OF_WRITES: Final[Mapping[str, Action]] = {
    **KILLS,
    **TERMINATIONS,
    **FREEZES,
    **_UNHEARD,
    "cut off before it is sent": Drop(),
    "answered too late": Hang(acted=True),
    "acted on late": Late(LATE_SECONDS),
}
OF_CREATES: Final[Mapping[str, Action]] = {"acted on when another was made": Overtaken()}
"""Later than the time after which absence counts: the operator or a person has decided that nothing was created."""
_CLOUD_500: Final[Mapping[str, Action]] = {"500": _refusal(500, "INTERNAL")}
_CLOUD_429: Final[Mapping[str, Action]] = {
    "429 in seconds": _refusal(429, "RATE_LIMITED", Retry_After="1"),
    "429 until a date": _refusal(429, "RATE_LIMITED", Retry_After="Fri, 20 Nov 2020 00:00:00 GMT"),
    "429 without a time": _refusal(429, "RATE_LIMITED"),
    "429 for years": _refusal(429, "RATE_LIMITED", Retry_After="999999999999"),
}
_KUBE_500: Final = _kube(500, "InternalError")
_KUBE_BUSY: Final[Mapping[str, Action]] = {
    "throttled for seconds": _kube(429, "TooManyRequests", Retry_After="1"),
    "throttled without a time": _kube(429, "TooManyRequests"),
    "throttled for years": _kube(429, "TooManyRequests", Retry_After="999999999999"),
}
_CLOUD: Final[Mapping[Asks, Mapping[str, Action]]] = {
    Asks.WRITE: {
        **_OF_WRITES,
        **_CLOUD_500,
        "500 though acted on": Answer(500, '{"error": "made up", "code": "INTERNAL"}', acted=True),
        "HTML 200": Answer(200, "<html><body>a gateway's page</body></html>", acted=True),
        "409": _refusal(409, "CONFLICT"),
        **_CLOUD_429,
    },
    Asks.READ: {
        **_OF_LOOKS,
        **_UNHEARD,
        "read too late": Hang(),
        **_CLOUD_500,
        "404": _refusal(404, "NOT_FOUND"),
        "410": _refusal(410, "GONE"),
        **_CLOUD_429,
    },
}
_STORE_500: Final = Answer(500, "<Error><Code>InternalError</Code></Error>", (("Content-Type", "application/xml"),))
_SLOW_DOWN: Final = Answer(503, "<Error><Code>SlowDown</Code></Error>", (("Content-Type", "application/xml"),))
FORMS: Final = frozenset(
    {"cut", "HTML 200", "503", "read too late", "read with a 500", "read while frozen", "watches end with 410"}
    | {"killed meanwhile"}
    | {"429 until a date", "429 without a time", "429 for years"}
    | {"throttled for seconds", "throttled without a time", "throttled for years"}
)
"""Variants of other faults in the table. The code that reads answers decides how to treat them, without knowing phase
or state (it also repeats requests that the API server throttles). So each operation meets them only once, in the first
phase and state in which it is sent."""
PERTURBATIONS: Final[Mapping[Side, Mapping[Asks, Mapping[str, Action]]]] = {
    Side.KUBE: {
        Asks.WRITE: {**_OF_WRITES, "409": _kube(409, "Conflict"), "500": _KUBE_500, **_KUBE_BUSY},
        Asks.READ: {**_OF_READS, **_UNHEARD, "read too late": Hang(), "read with a 500": _KUBE_500, **_KUBE_BUSY},
        Asks.LIST: {
            "killed meanwhile": _ACTED,
            **_UNHEARD,
            "read too late": Hang(),
            "410": _kube(410, "Expired"),
            "read with a 500": _KUBE_500,
            **_KUBE_BUSY,
            "watches end with 410": BreakWatches(Breakage.ERROR, 410),
        },
    },
    Side.CLOUD: _CLOUD,
    Side.INFERENCE: _CLOUD,
    Side.STORE: {
        Asks.WRITE: {**_OF_WRITES, "500": _STORE_500, "503": _SLOW_DOWN},
        Asks.READ: {**_OF_READS, **_UNHEARD, "500": _STORE_500, "503": _SLOW_DOWN},
    },
}
