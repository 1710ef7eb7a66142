"""Whether the cloud answers, for systems that start, restart and route to it."""

from typing import Final

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

HEALTH: Final = "/healthz"


class Health:
    """Answers `GET /healthz` outside of all layers: without a key, a turn, a fault or a read of the disk.

    An answer means that the state is open and the event loop runs. A restart would not help a full or failing disk.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200, or pass the request on."""
        asked = scope["type"] == "http" and scope["path"] == HEALTH and scope["method"] in {"GET", "HEAD"}
        await (PlainTextResponse("ok\n") if asked else self._app)(scope, receive, send)
