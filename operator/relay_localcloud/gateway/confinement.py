"""What a workload's answer may not say to a browser, since it would count for other workloads too.

Each host is one workload's; below `/_w/<id>` all workloads are of one origin, where `prefix` is that path.
"""

from typing import Final

from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from relay_localcloud.gateway.headers import passed_on
from relay_localcloud.http.errors import ApiError

_OF_THE_DOMAIN: Final = frozenset({"clear-site-data"})
"""Counts for hosts beside its own: it clears the cookies of the registrable domain."""

_OF_THE_ORIGIN: Final = frozenset(
    {"accept-ch", "alt-svc", "nel", "report-to", "service-worker-allowed", "strict-transport-security"}
)
"""Count for every path of the origin or host."""


def confined(headers: CIMultiDictProxy[str], prefix: str) -> CIMultiDict[str]:
    """The headers of an answer, with nothing in them that counts beyond the workload that sent it."""
    kept = passed_on(headers, _OF_THE_DOMAIN | _OF_THE_ORIGIN if prefix else _OF_THE_DOMAIN)
    for cookie in kept.popall("Set-Cookie", ()):
        kept.add("Set-Cookie", _confined_cookie(cookie, prefix))
    return kept


def require_confined(request: web.BaseRequest, prefix: str) -> None:
    """ApiError 403 if a browser fetches a service worker that would rule the folder that `prefix` is in."""
    if prefix and request.rel_url.raw_path == prefix and "Service-Worker" in request.headers:
        raise ApiError(403, f"A service worker from here would control other workloads: put it below {prefix}/.")


def _confined_cookie(cookie: str, prefix: str) -> str:
    """The cookie for its own host alone, and for paths below `prefix`."""
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
