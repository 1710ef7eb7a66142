"""Which cloud URLs an account may use: prefixes, compared by whole parts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

# One narrow grammar instead of a general parser: if two parsers disagree about a URL (user information, backslashes,
# escapes, dot segments), one of them can be made to see a host that the other does not.
_URL = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
    r"(?P<path>(?:/[A-Za-z0-9._~-]+)*)/?",
)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class UrlNotPlainError(ValueError):
    """A URL that is not `http(s)://host[:port][/path]` in plain characters; the message says what to write."""


@dataclass(frozen=True, slots=True)
class UrlPrefix:
    """A scheme, host, port and leading path segments, each compared as a whole."""

    scheme: str
    host: str
    port: int
    segments: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `http(s)://host[:port][/path]`; raises `UrlNotPlainError` for anything else."""
        scheme, separator, rest = text.partition("://")
        authority, slash, path = rest.partition("/")
        folded = f"{scheme.lower()}{separator}{authority.lower()}{slash}{path}"
        # Check for ASCII first: lower() turns some other letters into ASCII ones.
        match = _URL.fullmatch(folded) if text.isascii() else None
        port = int(match["port"] or _DEFAULT_PORTS[match["scheme"]]) if match else 0
        segments = tuple(match["path"].split("/")[1:]) if match else ()
        if match is None or not 0 < port < 65536 or {".", ".."} & set(segments):
            # Use repr and cut: anybody may have written the text into an object.
            raise UrlNotPlainError(
                f"{text[:200]!r} is not a plain URL: write http(s)://host[:port][/path] without user name, query, "
                "fragment, escapes or dot segments"
            )
        return cls(match["scheme"], match["host"], port, segments)

    def covers(self, other: Self) -> bool:
        """Whether the other URL has the same scheme, host and port, and its path begins with this one's segments."""
        same_server = (self.scheme, self.host, self.port) == (other.scheme, other.host, other.port)
        return same_server and other.segments[: len(self.segments)] == self.segments


def why_refused(url: str, allowed: Iterable[UrlPrefix]) -> str | None:
    """The message for the account's status if no prefix covers the URL; else None."""
    try:
        candidate = UrlPrefix.parse(url)
    except UrlNotPlainError as not_understood:
        return str(not_understood)
    if any(prefix.covers(candidate) for prefix in allowed):
        return None
    return (
        f"{url[:200]} is not among the URLs this operator may talk to: an administrator can add it to "
        "RELAY_ALLOWED_BASE_URLS (in the chart: cloud.allowedBaseUrls)"
    )
