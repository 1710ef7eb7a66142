"""Where an object is: a bucket's key, a web address or a file, parsed from people's URLs. Pure."""

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self
from urllib.parse import unquote_to_bytes

from relay_operator.objectstores.errors import StoreError, StoreReason

_LONGEST = 2048  # characters, as the custom resources allow
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,221}[a-z0-9]")  # 3 to 63 for S3; GCS has domain-named buckets of up to 222
_CONTAINER = re.compile(r"(?P<container>\$root|\$web|[a-z0-9](?:-?[a-z0-9]){2,62})(?:@(?P<account>[a-z0-9]{3,24}))?")
_HOST = re.compile(
    r"(?P<host>[a-z0-9_](?:[a-z0-9._-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?", re.IGNORECASE
)
_WEB_PATH = re.compile(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+)+")
_QUERY = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})*")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Scheme(StrEnum):
    """The kind of place that a URL names."""

    S3 = "s3"
    GCS = "gs"
    AZURE = "az"
    HTTPS = "https"
    HTTP = "http"
    FILE = "file"


_FORMS = {
    Scheme.S3: "s3://bucket/key",
    Scheme.GCS: "gs://bucket/key",
    Scheme.AZURE: "az://container/path or az://container@account/path",
    Scheme.HTTPS: "https://host[:port]/path[?query]",
    Scheme.HTTP: "http://host[:port]/path[?query]",
    Scheme.FILE: "file:///absolute/path",
}


@dataclass(frozen=True, slots=True)
class Location:
    """One object. `authority` is the bucket, the container or `host[:port]`; `path` is the key or the absolute path."""

    scheme: Scheme
    authority: str
    path: str
    query: str = field(default="", repr=False)  # of a web address; may contain a signature
    account: str = ""  # of Azure, if the URL names it

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse a URL; raises `StoreError` with reason Invalid and a message that shows the right form."""
        scheme, separator, rest = url.partition("://")
        if not separator or scheme.lower() not in list(Scheme):
            raise _invalid(url, f"does not begin with one of {', '.join(f'{known}://' for known in Scheme)}")
        kind = Scheme(scheme.lower())
        if len(url) > _LONGEST:
            raise _invalid(url, f"is longer than {_LONGEST} characters")
        if _UNPRINTABLE.search(url):
            raise _invalid(url, "has control characters or line breaks in it")
        match kind:
            case Scheme.S3 | Scheme.GCS | Scheme.AZURE:
                return cls._in_bucket(kind, url, rest)
            case Scheme.HTTPS | Scheme.HTTP:
                return cls._on_the_web(kind, url, rest)
            case Scheme.FILE:
                return cls._file(url, rest)

    @property
    def on_the_web(self) -> bool:
        """Whether this is a single URL on a web server, without known neighbours."""
        return self.scheme in {Scheme.HTTPS, Scheme.HTTP}

    def beside(self, end: str) -> Self:
        """The object with the same name and this suffix."""
        return replace(self, path=f"{self.path}{end}")

    @classmethod
    def _in_bucket(cls, scheme: Scheme, url: str, rest: str) -> Self:
        bucket, _, key = rest.partition("/")
        grammar = _CONTAINER if scheme is Scheme.AZURE else _BUCKET
        match = grammar.fullmatch(bucket)
        if match is None:
            raise _invalid(url, f"does not name a bucket: write {_FORMS[scheme]}")
        if "?" in key or "#" in key:
            raise _invalid(url, f"has a query or a fragment: write {_FORMS[scheme]}")
        _check_segments(url, key, _FORMS[scheme])
        named = match.groupdict()
        return cls(scheme, named.get("container") or bucket, key, account=named.get("account") or "")

    @classmethod
    def _on_the_web(cls, scheme: Scheme, url: str, rest: str) -> Self:
        before, _, query = rest.partition("?")
        authority, slash, path = before.partition("/")
        if "@" in authority:
            raise _invalid(url, "has a user name in it: put the authorization into the Secret instead")
        if "#" in url:
            raise _invalid(url, f"has a fragment: write {_FORMS[scheme]}")
        match = _HOST.fullmatch(authority)
        if match is None or not 0 < int(match["port"] or 443) < 65536:
            raise _invalid(url, f"does not name a host: write {_FORMS[scheme]}")
        if not _WEB_PATH.fullmatch(slash + path) or not _QUERY.fullmatch(query):
            raise _invalid(url, f"has an empty path or characters that must be escaped: write {_FORMS[scheme]}")
        _check_segments(url, path, _FORMS[scheme])
        return cls(scheme, authority.lower(), slash + path, query)

    @classmethod
    def _file(cls, url: str, rest: str) -> Self:
        if not rest.startswith("/"):
            raise _invalid(url, f"names a host or a relative path: write {_FORMS[Scheme.FILE]}")
        if "?" in rest or "#" in rest:
            raise _invalid(url, f"has a query or a fragment: escape them, as in {_FORMS[Scheme.FILE]}")
        try:
            path = unquote_to_bytes(rest).decode()
        except UnicodeDecodeError:
            raise _invalid(url, "has escapes that are not UTF-8") from None
        if _UNPRINTABLE.search(path):
            raise _invalid(url, "has control characters or line breaks in it")
        _check_segments(url, path[1:], _FORMS[Scheme.FILE])
        return cls(Scheme.FILE, "", path)

    @property
    def url(self) -> str:
        """The whole URL with its query: for requests, never for messages."""
        return f"{self}?{self.query}" if self.query else str(self)

    def __str__(self) -> str:
        """The URL without its query, safe for messages and logs."""
        at = f"@{self.account}" if self.account else ""
        slash = "" if self.path.startswith("/") else "/"
        return f"{self.scheme}://{self.authority}{at}{slash}{self.path}"


def _check_segments(url: str, path: str, form: str) -> None:
    segments = path.split("/")
    if not segments[-1]:
        raise _invalid(url, f"names a folder, not an object: write {form}")
    if "" in segments:
        raise _invalid(url, "has an empty path segment (two slashes in a row)")
    if {".", ".."} & {unquote_to_bytes(segment).decode(errors="replace") for segment in segments}:
        raise _invalid(url, "has a segment '.' or '..' in its path")


def _invalid(url: str, problem: str) -> StoreError:
    """An error that shows the URL cut, and without user information and query."""
    scheme, separator, rest = url.partition("://")
    shown = scheme + separator + re.sub(r"^[^/?#]*@", "", rest) if separator else url
    shown = _UNPRINTABLE.sub("\ufffd", re.split(r"[?#]", shown, maxsplit=1)[0])[:200]
    return StoreError(StoreReason.INVALID, f"The URL {shown!r} {problem}.")
