"""Requests to a workload through an API server: nothing in them may affect that server itself."""

from ssl import SSLContext
from typing import Final
from urllib.parse import unquote

from multidict import CIMultiDict
from yarl import URL

from relay_localcloud.http.errors import ApiError
from relay_localcloud.runtimes.runtime import Way

_OF_THE_SERVER: Final = ("authorization", "impersonate-", "x-remote-")
"""Prefixes of headers that tell an API server who the caller is."""


def url_on(way: Way, path: str) -> URL:
    """The URL of a request, with its path exactly as the client sent it, since the workload interprets it.

    ApiError 400 for a path that an API server could take for one of its own.
    """
    if way.proxied is not None and not {".", ".."}.isdisjoint(unquote(path.partition("?")[0]).split("/")):
        raise ApiError(400, "The path has a part of only one or two dots, which this gateway does not pass on.")
    return URL(way.url.rstrip("/") + path, encoded=True)


def headers_on(way: Way, headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers of a request, and those with which the API server authenticates the cloud."""
    if way.proxied is None:
        return headers
    kept = CIMultiDict((name, value) for name, value in headers.items() if not _counts(name))
    kept.update(way.proxied.headers())
    return kept


def unreachable(way: Way, failure: BaseException) -> ApiError:
    """The 502 for a workload that cannot be reached."""
    return ApiError(502, f"{way.name} did not answer ({type(failure).__name__}).")


def tls_on(way: Way) -> SSLContext | bool:
    """The `ssl` argument of the client session."""
    return True if way.proxied is None else way.proxied.tls


def _counts(name: str) -> bool:
    return name.lower().startswith(_OF_THE_SERVER)
