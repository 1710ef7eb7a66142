"""The control interface has no authentication, so only this machine may use it unless told otherwise."""

from ipaddress import IPv6Address, ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.errors import ApiError, error_response


class ControlAccess:
    """Refuses `/_localcloud` and the console to other machines."""

    def __init__(self, app: ASGIApp, *, anywhere: bool) -> None:
        self._app = app
        self._anywhere = anywhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if not self._anywhere and _is_control(scope["path"]) and not _is_local(scope):
            message = "The control interface answers this machine only; start with --public-control to open it to all."
            await error_response(ApiError(403, message))(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_control(path: str) -> bool:
    return path in {"/", "/_localcloud"} or path.startswith("/_localcloud/")


def _is_local(scope: Scope) -> bool:
    client = scope.get("client")
    if client is None:
        return False
    address = ip_address(client[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).is_loopback
