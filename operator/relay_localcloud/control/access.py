"""The control interface has no authentication, so only this machine may use it unless told otherwise.

The console is part of it. A browser on this machine also runs the pages of strangers, so a name that a stranger made
point here is refused (DNS rebinding), and so is a change that another site's page asks for.
"""

from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.http.errors import ApiError, error_response

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_PAGES: Final = frozenset({"same-origin", "none"})
"""What `Sec-Fetch-Site` says of this origin's own pages and of a person who typed the address."""


class ControlAccess:
    """Refuses `/_localcloud` and the console to other machines and other sites."""

    def __init__(self, app: ASGIApp, *, anywhere: bool) -> None:
        self._app = app
        self._anywhere = anywhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        refused = self._refused(scope) if _is_control(scope["path"]) else None
        if refused is not None:
            await error_response(ApiError(403, refused))(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        if not self._anywhere and not _is_local(scope):
            return "The control interface answers this machine only; start with --public-control to open it to all."
        if not self._anywhere and not _names_this_machine(headers.get("host", "localhost")):
            return "The control interface answers to localhost and to IP addresses, not to this name: use one of those."
        if scope["method"] not in _READING and _is_foreign(scope, headers):
            return "This was asked for by another site's page: the control interface takes that from none."
        return None


def _is_control(path: str) -> bool:
    return path in {"/", "/_localcloud"} or path.startswith(("/_localcloud/", "/console/"))


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return False
    address = ip_address(client[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback


def _names_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


def _is_foreign(scope: Scope, headers: Headers) -> bool:
    """Whether a browser sent it for another site's page; forms of the console come from browsers, so they must say."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        return not scope["path"].startswith("/_localcloud/")
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    return site not in {None, *_OWN_PAGES} or origin not in {None, own}
