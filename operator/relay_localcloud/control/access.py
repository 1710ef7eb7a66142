"""Who may use the control interface: holders of the admin token; without a token, only this machine.

The console is part of it. A browser on this machine also runs the pages of strangers, so a stranger's name that
resolves to this machine is refused (DNS rebinding), as is a change that another site's page requests.
"""

import hmac
from base64 import b64decode
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.egress.reach import is_loopback
from relay_localcloud.http.errors import ApiError, error_response
from relay_localcloud.http.exchange import exchange_of
from relay_localcloud.http.turns import REFUSED, Turns
from relay_localcloud.http.visitors import as_written

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_PAGES: Final = frozenset({"same-origin", "none"})
"""`Sec-Fetch-Site` for this origin's own pages, and for an address that a person typed."""


_TOKEN_WANTED: Final = ApiError(
    401,
    "Send the admin token: Authorization: Bearer <token>. A browser takes it as the password, with any name.",
    headers={"WWW-Authenticate": 'Basic realm="relay-localcloud", charset="UTF-8"'},
)


class ControlAccess:
    """Refuses `/_localcloud` and the console to strangers, other machines and other sites.

    If there is a token, every request needs it, even from this machine: a webhook may point at it. `origin` is the
    console's origin in browsers that reach it through a proxy. With one that is not this machine, and without a token,
    nobody is let in: a proxy on this machine calls from it, whoever calls the proxy, and may name it as the host.
    Whoever is refused waits for the turn of all who are.
    """

    def __init__(
        self, app: ASGIApp, turns: Turns, *, anywhere: bool, token: str | None = None, origin: str | None = None
    ) -> None:
        self._app = app
        self._turns = turns
        self._anywhere = anywhere or bool(token)
        self._token = (token or "").encode()
        self._origin = origin
        self._behind_proxy = origin is not None and not is_loopback(urlsplit(origin).hostname or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if _is_control(scope["path"]):
            refused = self._refused(scope)
            if refused is not None:
                await self._turns.of(REFUSED)
                await error_response(refused)(scope, receive, send)
                return
            exchange_of(scope).is_control = True
        await self._app(scope, receive, send)

    def _refused(self, scope: Scope) -> ApiError | None:
        headers = Headers(scope=scope)
        if self._token and not hmac.compare_digest(_secret(headers.get("authorization", "")), self._token):
            return _TOKEN_WANTED
        why = self._why_not(scope, headers)
        return ApiError(403, why) if why else None

    def _why_not(self, scope: Scope, headers: Headers) -> str:
        if not self._anywhere and (why := self._why_not_here(scope, headers)):
            return why
        if scope["method"] not in _READING and _is_foreign(scope, headers, self._origin):
            return "A page of another site sent this request: the control interface takes none of those."
        return ""

    def _why_not_here(self, scope: Scope, headers: Headers) -> str:
        """Why the request may not be of this machine."""
        if self._behind_proxy:
            return (
                "With --public-url, whoever calls through a proxy may seem to be on this machine: start with "
                "--admin-token-file to use the control interface."
            )
        if not _is_local(scope):
            return "The control interface answers this machine only; start with --admin-token-file to open it."
        if not _names_this_machine(headers.get("host", "localhost")):
            return "The control interface answers to localhost and to IP addresses, not to this name: use one of those."
        return ""


def _secret(authorization: str) -> bytes:
    """The secret of a bearer token, or the password of Basic, for which a browser asks a person."""
    scheme, _, credential = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return credential.strip().encode()
    if scheme.lower() != "basic":
        return b""
    try:
        return b64decode(credential, validate=True).partition(b":")[2]
    except ValueError:  # also binascii.Error
        return b""


def _is_control(path: str) -> bool:
    return path in {"/", "/_localcloud"} or path.startswith(("/_localcloud/", "/console/"))


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    return client is not None and ip_address(as_written(client[0])).is_loopback


def _names_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ip_address(name))
    except ValueError:
        return False


def _is_foreign(scope: Scope, headers: Headers, public: str | None) -> bool:
    """Whether a browser sent it for another site's page; the console's forms are from browsers and need a header."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is None and origin is None:
        return not scope["path"].startswith("/_localcloud/")
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    return site not in {None, *_OWN_PAGES} or origin not in {None, own, public}
