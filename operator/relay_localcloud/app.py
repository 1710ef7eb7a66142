"""The composition of the local cloud: its handlers, its routes, its layers. All of them are listed here.

Layers, outermost first: health, request log, the end of requests at a reset, authentication, rate limit, room on the
disk, faults, then the routes.
"""

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from relay_localcloud import inference_app
from relay_localcloud.audit import entries
from relay_localcloud.batches import rows as batch_rows
from relay_localcloud.batches.runner import BatchRunner
from relay_localcloud.batches.storage import FileStorage
from relay_localcloud.batches.upload import Uploads
from relay_localcloud.batches.work import Worker
from relay_localcloud.capacity import addresses, catalog_routes
from relay_localcloud.clock.clock import Clock
from relay_localcloud.clock.state import Mode, steady
from relay_localcloud.cloud import Cloud
from relay_localcloud.clusters import clusters
from relay_localcloud.clusters import moves as cluster_moves
from relay_localcloud.clusters import routes as cluster_routes
from relay_localcloud.console.routes import ROUTERS as CONSOLE_ROUTERS
from relay_localcloud.control import behaviour as control_behaviour
from relay_localcloud.control import nodes as control_nodes
from relay_localcloud.control import orgs as control_orgs
from relay_localcloud.control import orphans as control_orphans
from relay_localcloud.control import payments as control_payments
from relay_localcloud.control import records as control_records
from relay_localcloud.control import state as control_state
from relay_localcloud.control import workloads as control_workloads
from relay_localcloud.control.access import ControlAccess
from relay_localcloud.control.state import Reset
from relay_localcloud.counted import COUNTED
from relay_localcloud.egress.reach import Reach
from relay_localcloud.faults.layer import FaultInjection, FaultRegistry
from relay_localcloud.gateway import directory
from relay_localcloud.http import errors, openapi
from relay_localcloud.http.application import Application
from relay_localcloud.http.authentication import Authentication, bearer
from relay_localcloud.http.exchange import Operations
from relay_localcloud.http.health import Health
from relay_localcloud.http.openapi import Api
from relay_localcloud.http.ratelimit import RateLimit, RateLimiter
from relay_localcloud.http.requestlog import RequestLog, RequestLogging
from relay_localcloud.http.room import KeepsRoom
from relay_localcloud.http.routing import Route, Router
from relay_localcloud.http.turns import CatchesUp, FairTurns, Turns
from relay_localcloud.http.under_way import EndedFromOutside, UnderWay
from relay_localcloud.identity import account_routes, api_key_routes, credentials, organization_routes
from relay_localcloud.inference import backend_routes, proxy_routes
from relay_localcloud.inference import errors as inference_errors
from relay_localcloud.inference.funds import Funds
from relay_localcloud.inference.invoke import invoke
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.kernel import keys, retention
from relay_localcloud.kernel.due import DueHandler
from relay_localcloud.kernel.store import Store
from relay_localcloud.money import alarms, ledger, payments
from relay_localcloud.money import routes as billing_routes
from relay_localcloud.providers import (
    applications,
    node_events,
    reservation_moves,
    reservation_routes,
    tokens,
)
from relay_localcloud.providers import routes as provider_routes
from relay_localcloud.quotas import routes as quota_routes
from relay_localcloud.quotas.quotas import Rates
from relay_localcloud.runtimes.simulated import Simulated
from relay_localcloud.serving import moves as serving_moves
from relay_localcloud.serving import routes as serving_routes
from relay_localcloud.tooling import registry_credentials, runner_pools
from relay_localcloud.webhooks import deliveries as webhook_deliveries
from relay_localcloud.webhooks import routes as webhook_routes
from relay_localcloud.webhooks import webhooks
from relay_localcloud.webhooks.deliveries import Deliveries
from relay_localcloud.workloads import (
    log_routes,
    moves,
    pod_routes,
    snapshots,
    ssh_keys,
    transfers,
    vm_routes,
    workloads,
)
from relay_localcloud.workloads.followers import Followers
from relay_wire.errors import ErrorBody

if TYPE_CHECKING:
    from relay_localcloud.runtimes.kubernetes.regions import Regions

HANDLERS: Mapping[str, DueHandler] = {
    **moves.HANDLERS,
    **cluster_moves.HANDLERS,
    **serving_moves.HANDLERS,
    **node_events.HANDLERS,
    **snapshots.HANDLERS,
    **reservation_moves.HANDLERS,
    **alarms.handlers(
        stops=(moves.balance_ran_out, cluster_moves.balance_ran_out, serving_moves.balance_ran_out),
        funded=(moves.funded, cluster_moves.funded, serving_moves.funded),
    ),
    **payments.HANDLERS,
    **directory.HANDLERS,
    **webhooks.HANDLERS,
    **retention.handlers(
        (
            *(workloads.ENDED, clusters.ENDED, batch_rows.DELETED, batch_rows.ENDED),
            *(credentials.REVOKED, tokens.REVOKED, ledger.ENDED),
        )
    ),
}
"""The handler of each kind of transition, from the tables of all nouns."""

ROUTERS: tuple[Router, ...] = (
    account_routes.router,
    organization_routes.router,
    quota_routes.router,
    proxy_routes.router,
    api_key_routes.router,
    ssh_keys.router,
    registry_credentials.router,
    runner_pools.router,
    webhook_routes.router,
    catalog_routes.router,
    pod_routes.router,
    vm_routes.router,
    log_routes.router,
    snapshots.router,
    transfers.router,
    cluster_routes.router,
    reservation_routes.router,
    billing_routes.router,
    applications.router,
    provider_routes.router,
    tokens.router,
    backend_routes.router,
    serving_routes.router,
)
"""The management API."""

LIST_VMS_ROUTERS: tuple[Router, ...] = (vm_routes.list_router,)
"""The lists that `--list-vms` adds, which the specification does not have."""

CONTROL_ROUTERS: tuple[Router, ...] = (
    control_behaviour.router,
    control_nodes.router,
    control_orphans.router,
    control_workloads.router,
    control_orgs.router,
    control_records.router,
    control_payments.router,
    control_state.router,
)
"""The control interface, under `/_localcloud`."""

_CONTROL = "/_localcloud"


@dataclass(frozen=True)
class Options:
    """The options of `serve` that concern the cloud itself."""

    state: Path | None = None
    first_mode: Mode = "real"
    seed: Path | None = None
    list_vms: bool = False
    public_control: bool = False
    admin_token: str | None = None
    reach: Reach = field(default_factory=lambda: Reach.of_server("localhost", ()))
    """The addresses that organizations' webhooks and model servers may have."""
    beyond_loopback: bool = False
    key_file: Path | None = None
    """The file with the key of secrets at rest; None: it is in the state directory, or in memory."""
    public_url: str | None = None
    """The URL at which the management port is reached; None: where it listens."""


def management_routes(options: Options) -> list[Route]:
    """Every operation of the management port."""
    routers = (*ROUTERS, *CONSOLE_ROUTERS, *(LIST_VMS_ROUTERS if options.list_vms else ()))
    own = [route for router in routers for route in router.routes]
    return own + [route for router in CONTROL_ROUTERS for route in router.below(_CONTROL, "Control")]


def open_cloud(
    store: Store, options: Options, gateway_url: str, inference_url: str, runtime: "Regions | None" = None
) -> Cloud:
    """Create the parts of a cloud on its state; `gateway_url` is the base URL of workload endpoints.

    `runtime` runs the workloads; None: they are simulated.
    """
    store.beyond_loopback = options.beyond_loopback
    store.runtime_of = Simulated if runtime is None else runtime.runtime_of
    of_quotas = {quota.name: counted for quota, counted in COUNTED.items()}
    store.count({**of_quotas, **addresses.COUNTED, **moves.COUNTED, **webhook_deliveries.COUNTED})
    faults = FaultRegistry(store)
    turns = Turns()
    deliveries = Deliveries(store, faults, options.reach, turns)
    files = FileStorage(store)
    vault = keys.open_vault(store, options.key_file)
    upstreams = Upstreams(random.random, vault, options.reach, runtime)
    funds = Funds()
    batches = BatchRunner(store, files, Worker(store, partial(invoke, store, upstreams)), funds, turns)
    clock = Clock(store, HANDLERS, [deliveries.fan_out, deliveries, batches], steady(), options.first_mode)
    limiter = RateLimiter(time.monotonic)
    parts = (store, clock, deliveries, RequestLog(clock.now), faults, limiter, gateway_url, inference_url)
    served = Operations(route.operation for route in (*management_routes(options), *inference_app.API.routes))
    own = (vault, served, UnderWay(), turns, Followers(store, turns), runtime, options.public_url)
    return Cloud(*parts, upstreams, funds, files, Uploads(), batches, *own)


REFUSALS: Final[tuple[errors.ErrorAnswer, ...]] = (errors.management_error, inference_errors.error_response)
"""How the API of the management port and that of the inference port answer errors."""


def apis(cloud: Cloud, options: Options, reset: Reset) -> tuple[ASGIApp, ASGIApp]:
    """The applications of the management port and of the inference port."""
    return _management_app(cloud, options, reset), inference_app.application(cloud)


def _management_app(cloud: Cloud, options: Options, reset: Reset) -> ASGIApp:
    api = Api(management_routes(options), ErrorBody, ("key",))

    def description() -> object:
        return openapi.described([api, inference_app.API])

    app = Application(
        api.routes,
        {Cloud: cloud, Reset: reset},
        cloud.store,
        errors.management_error,
        cache(description),
        entries.record,
    )
    layered: ASGIApp = FaultInjection(app, cloud.faults, errors.management_error)
    layered = KeepsRoom(layered, cloud.store, errors.management_error)
    layered = RateLimit(layered, cloud.store, cloud.rate_limiter, Rates(cloud.store).of, errors.management_error)
    layered = FairTurns(layered, cloud.turns)
    layered = Authentication(
        layered, cloud.store, bearer, credentials.authenticate, errors.management_error, cloud.turns
    )
    layered = CatchesUp(layered, cloud.clock.caught_up)
    layered = ControlAccess(
        layered, cloud.turns, anywhere=options.public_control, token=options.admin_token, origin=options.public_url
    )
    layered = EndedFromOutside(layered, cloud.under_way, errors.management_error)
    return Health(RequestLogging(layered, app.operations, cloud.requests))
