"""The layer that keeps room on the disk for reading, stopping, ending and due items."""

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from relay_localcloud.http.errors import ApiError, ErrorAnswer
from relay_localcloud.kernel.store import Store

_MAKE_NOTHING: Final = frozenset({"GET", "HEAD", "DELETE"})
_ENDS: Final = frozenset({"stop", "terminate", "cancel"})
_RETRY_AFTER: Final = {"Retry-After": "60"}


def goes_on(method: str, path: str) -> bool:
    """Whether an operation is served while the disk is nearly full; control is, since it can free room."""
    return method in _MAKE_NOTHING or not path.startswith("/v1/") or path.rpartition("/")[2] in _ENDS


class KeepsRoom:
    """Answers 503 to operations that may create something while less than the reserve is free."""

    def __init__(self, app: ASGIApp, store: Store, refused: ErrorAnswer) -> None:
        self._app = app
        self._store = store
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503."""
        if goes_on(scope["method"], scope["path"]) or self._store.has_room:
            await self._app(scope, receive, send)
            return
        message = (
            "The disk of the local cloud is nearly full: until there is room, "
            "it takes only requests that read, stop, end or delete."
        )
        await self._refused(ApiError(503, message, headers=_RETRY_AFTER), scope)(scope, receive, send)
