"""What the inference and gateway ports answer where nothing else is mounted: honest errors in each one's own shape."""

import json

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

_JSON = "application/json"


def inference_app() -> ASGIApp:
    """404 in the error shape of the inference API (section 2) for everything."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        error = {
            "message": f"There is nothing at {scope['path']}.",
            "type": "not_found_error",
            "code": None,
        }
        await Response(json.dumps({"error": error}), 404, media_type=_JSON)(scope, receive, send)

    return app


def gateway_app() -> ASGIApp:
    """404 for everything: no workload answers here."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = {"error": "No workload has an endpoint at this address.", "code": "not_found"}
        await Response(json.dumps(body), 404, media_type=_JSON)(scope, receive, send)

    return app
