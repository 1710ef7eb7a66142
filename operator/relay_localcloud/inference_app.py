"""The composition of the inference API: its routes and its layers, in the order of the management API's.

Nothing limits the rate of its requests (section 8).
"""

from typing import Final

from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from relay_localcloud.batches import batch_routes, file_routes
from relay_localcloud.cloud import Cloud
from relay_localcloud.faults.layer import FaultInjection
from relay_localcloud.http import openapi
from relay_localcloud.http.dispatch import Dispatch, Mounted, operations
from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.exchange import Operations
from relay_localcloud.http.requestlog import RequestLogging
from relay_localcloud.http.under_way import EndedByReplacement
from relay_localcloud.inference import errors, routes
from relay_localcloud.inference.authentication import InferenceAuthentication
from relay_wire.errors import InferenceErrorBody

ROUTERS: Final[tuple[APIRouter, ...]] = (routes.router, file_routes.router, batch_routes.router)
"""The inference API."""

MOUNTED: Final[tuple[Mounted, ...]] = tuple(("", router) for router in ROUTERS)


def application(cloud: Cloud) -> FastAPI:
    """The routes of the inference port, without layers."""
    app = FastAPI(
        title="The local cloud's inference API",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        responses={
            "4XX": {"model": InferenceErrorBody, "description": "The request cannot be granted (section 7)."},
            "5XX": {"model": InferenceErrorBody, "description": "Try again later (section 7)."},
        },
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    errors.install(app)
    for router in ROUTERS:
        app.include_router(router)
    app.router.routes.insert(0, Dispatch(MOUNTED))
    app.state.cloud = cloud
    app.state.operations = Operations(operations(MOUNTED))
    openapi.describe(app, inference=app)
    return app


def layered(cloud: Cloud, app: FastAPI) -> ASGIApp:
    """The application with its layers around it."""
    layers: ASGIApp = FaultInjection(app, cloud.faults, _refused)
    layers = InferenceAuthentication(layers, cloud.store)
    layers = EndedByReplacement(layers, cloud.under_way, _refused)
    return RequestLogging(layers, Operations(operations(MOUNTED)), cloud.requests)


def _refused(error: ApiError, scope: Scope) -> Response:
    return errors.error_response(errors.of_api_error(error), scope)
