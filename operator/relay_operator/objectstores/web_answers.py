"""What a web server's answer says of an object. Pure."""

import re
from collections.abc import Mapping

from yarl import URL

from relay_operator.objectstores.errors import StoreError, StoreReason, reason_of
from relay_operator.objectstores.location import Location
from relay_operator.objectstores.store import ObjectInfo

REDIRECTS = (301, 302, 303, 307, 308)
_CONTENT_RANGE = re.compile(r"bytes (?P<start>[0-9]{1,18})-[0-9]{1,18}/(?P<size>[0-9]{1,18}|\*)")


def seen(status: int, headers: Mapping[str, str]) -> tuple[ObjectInfo, int]:
    """The object, and the byte that the answer's body begins with; raises ValueError for a range without sense."""
    version = headers.get("ETag") or headers.get("Last-Modified") or ""
    length = headers.get("Content-Length", "")
    if status != 206:
        return ObjectInfo(int(length) if length.isdecimal() else None, version), 0
    match = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
    if match is None:
        raise ValueError("a range was answered without a Content-Range that says which")
    size = match["size"]
    return ObjectInfo(None if size == "*" else int(size), version), int(match["start"])


def redirect_target(location: Location, url: URL, target: str) -> URL:
    """Where a redirect leads; raises `StoreError` where it gives up TLS or leads nowhere."""
    try:
        joined = url.join(URL(target))
    except ValueError:
        joined = URL()
    if not target or joined.scheme not in ("http", "https") or not joined.host or joined.user:
        raise StoreError(StoreReason.INVALID, f"{location} redirects to no URL that can be followed.")
    if url.scheme == "https" and joined.scheme == "http":
        raise StoreError(
            StoreReason.NOT_ALLOWED, f"{location} redirects from https to plain http, which is not followed."
        )
    return joined


def refusal(location: Location, status: int) -> StoreError:
    """The error for a status that is none of success."""
    reason = reason_of(status)
    return StoreError(reason, f"{location} {_SENTENCES[reason].format(status=status)}.")


_SENTENCES = {
    StoreReason.NOT_FOUND: "does not exist ({status})",
    StoreReason.FORBIDDEN: "was refused by its server ({status}): check the authorization in the Secret",
    StoreReason.CHANGED: "was replaced while it was read ({status})",
    StoreReason.UNREACHABLE: "is not served at the moment ({status})",
    StoreReason.INVALID: "cannot be used: its server answered with status {status}",
}
