"""Headers that pass through the gateway (RFC 9110, section 7.6; RFC 7239's older spellings)."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from relay_localcloud.http.visitors import as_written

_HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_ANSWERED_HERE: Final = frozenset({"expect"})
_SET_HERE: Final = frozenset({"x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix"})


def passed_on(headers: CIMultiDictProxy[str], without: AbstractSet[str] = frozenset()) -> CIMultiDict[str]:
    """The headers for the other end, in their order, including repeated ones."""
    dropped = _HOP_BY_HOP | without | _named(headers.getall("connection", ()))
    return CIMultiDict((name, _utf8(value)) for name, value in headers.items() if name.lower() not in dropped)


def to_workload(
    headers: CIMultiDictProxy[str], consumed: AbstractSet[str], client: str | None, scheme: str, prefix: str
) -> CIMultiDict[str]:
    """A request's headers as the workload gets them: without keys, and with the client, host and scheme of the request.

    `Host` stays as the client sent it, since the workload is known by that name.
    """
    sent = passed_on(headers, consumed | _ANSWERED_HERE | _SET_HERE)
    hops = [*sent.popall("x-forwarded-for", ()), *([as_written(client)] if client else [])]
    sent["X-Forwarded-For"] = ", ".join(hops)
    sent["X-Forwarded-Host"] = headers.get("host", "")
    sent["X-Forwarded-Proto"] = scheme
    if prefix:
        sent["X-Forwarded-Prefix"] = prefix
    return sent


def _named(connection: Iterable[str]) -> frozenset[str]:
    return frozenset(name.strip().lower() for value in connection for name in value.split(","))


def _utf8(value: str) -> str:
    """A value that was not UTF-8, decoded as Latin-1 instead, since only UTF-8 can be sent."""
    if value.isascii() or not any("\udc80" <= character <= "\udcff" for character in value):
        return value
    return value.encode(errors="surrogateescape").decode("latin-1")
