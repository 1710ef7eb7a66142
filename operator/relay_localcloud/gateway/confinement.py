"""Restricts a workload's answers in browsers, so that they do not affect other workloads.

Each host has one workload; below `/_w/<id>` all workloads share one origin, and `prefix` is that path.
"""

from typing import Final

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from relay_localcloud.gateway.headers import passed_on
from relay_localcloud.http.errors import ApiError

_OF_THE_DOMAIN: Final = frozenset({"clear-site-data"})
"""Headers that affect hosts besides their own: this one clears the cookies of the registrable domain."""

_OF_THE_ORIGIN: Final = frozenset(
    {"accept-ch", "alt-svc", "nel", "report-to", "service-worker-allowed", "strict-transport-security"}
)
"""Headers that affect every path of the origin or host."""


def confined(headers: CIMultiDictProxy[str], prefix: str) -> CIMultiDict[str]:
    """The headers of an answer, limited to the workload that sent it."""
    kept = passed_on(headers, _OF_THE_DOMAIN | _OF_THE_ORIGIN if prefix else _OF_THE_DOMAIN)
    for cookie in kept.popall("Set-Cookie", ()):
        kept.add("Set-Cookie", _confined_cookie(cookie, prefix))
    return kept


def require_confined(request: web.BaseRequest, prefix: str) -> None:
    """Raise ApiError 403 if a browser requests a service worker that would control the folder of `prefix`."""
    if prefix and request.rel_url.raw_path == prefix and "Service-Worker" in request.headers:
        raise ApiError(403, f"A service worker from here would control other workloads: put it below {prefix}/.")


def _confined_cookie(cookie: str, prefix: str) -> str:
    """The cookie, limited to its own host and to paths below `prefix`."""
    pair, *attributes = cookie.split(";")
    kept = [each for each in attributes if _name(each) != "domain"]
    if prefix:
        paths = [_value(each) for each in kept if _name(each) == "path"]
        path = paths[-1] if paths else ""
        below = path == prefix or path.startswith(f"{prefix}/")
        kept = [each for each in kept if _name(each) != "path"] + [f" Path={path if below else prefix}"]
    return ";".join([pair, *kept])


def _name(attribute: str) -> str:
    return attribute.partition("=")[0].strip().lower()


def _value(attribute: str) -> str:
    return attribute.partition("=")[2].strip()
