"""What the gateway port answers while no workload is behind it: an honest error."""

import json

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_JSON = "application/json"


def gateway_app() -> ASGIApp:
    """404 for everything: no workload answers here."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = {"error": "No workload has an endpoint at this address.", "code": "not_found"}
        await Response(json.dumps(body), 404, media_type=_JSON)(scope, receive, send)

    return app
