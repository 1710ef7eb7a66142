"""The composition of the inference API: its routes and its layers, in the order of the management API's.

The rate of its requests is not limited (section 8).
"""

from functools import cache
from typing import Final

from starlette.types import ASGIApp

from relay_localcloud.audit import entries
from relay_localcloud.batches import batch_routes, file_routes
from relay_localcloud.cloud import Cloud
from relay_localcloud.faults.layer import FaultInjection
from relay_localcloud.http import openapi
from relay_localcloud.http.application import Application
from relay_localcloud.http.authentication import Authentication
from relay_localcloud.http.openapi import Api
from relay_localcloud.http.requestlog import RequestLogging
from relay_localcloud.http.room import KeepsRoom
from relay_localcloud.http.turns import CatchesUp, FairTurns
from relay_localcloud.http.under_way import EndedFromOutside
from relay_localcloud.inference import callers, routes
from relay_localcloud.inference.errors import error_response
from relay_wire.errors import InferenceErrorBody

API: Final = Api(
    [*routes.router.routes, *file_routes.router.routes, *batch_routes.router.routes],
    InferenceErrorBody,
    ("key", "x-api-key"),
)
"""The inference API."""


def application(cloud: Cloud) -> ASGIApp:
    """The application of the inference port."""
    parts: dict[type, object] = {Cloud: cloud}
    description = cache(lambda: openapi.described([API]))
    app = Application(API.routes, parts, cloud.store, error_response, description, entries.record)
    layers: ASGIApp = FaultInjection(app, cloud.faults, error_response)
    layers = KeepsRoom(layers, cloud.store, error_response)
    layers = FairTurns(layers, cloud.turns)
    layers = Authentication(layers, cloud.store, callers.credential, callers.holder, error_response, cloud.turns)
    layers = CatchesUp(layers, cloud.clock.caught_up)
    layers = EndedFromOutside(layers, cloud.under_way, error_response)
    return RequestLogging(layers, app.operations, cloud.requests)
