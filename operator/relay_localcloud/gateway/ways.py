"""Requests on a way that an API server passes on: nothing of theirs may count for that server itself."""

from ssl import SSLContext
from typing import Final
from urllib.parse import unquote

from multidict import CIMultiDict
from yarl import URL

from relay_localcloud.http.errors import ApiError
from relay_localcloud.runtimes.runtime import Way

_OF_THE_SERVER: Final = ("authorization", "impersonate-", "x-remote-")
"""How headers begin that say to an API server who asks."""


def url_on(way: Way, path: str) -> URL:
    """What is asked, character for character as it was sent: what it means is the workload's affair.

    ApiError 400 for a path that an API server could take for one of its own.
    """
    if way.proxied is not None and not {".", ".."}.isdisjoint(unquote(path.partition("?")[0]).split("/")):
        raise ApiError(400, "The path has a part of only one or two dots, which this gateway does not pass on.")
    return URL(way.url.rstrip("/") + path, encoded=True)


def headers_on(way: Way, headers: CIMultiDict[str]) -> CIMultiDict[str]:
    """The headers of a request, and those by which the server that passes it on knows the cloud."""
    if way.proxied is None:
        return headers
    kept = CIMultiDict((name, value) for name, value in headers.items() if not _counts(name))
    kept.update(way.proxied.headers())
    return kept


def unreachable(way: Way, failure: BaseException) -> ApiError:
    """502: what is to answer for the workload could not be used."""
    return ApiError(502, f"{way.name} did not answer ({type(failure).__name__}).")


def tls_on(way: Way) -> SSLContext | bool:
    """What a session is given as `ssl`."""
    return True if way.proxied is None else way.proxied.tls


def _counts(name: str) -> bool:
    return name.lower().startswith(_OF_THE_SERVER)
