"""Every page and action of the console."""

from typing import Final

from relay_localcloud.console import (
    actions,
    batches,
    clock,
    faults,
    files,
    money,
    nodes,
    outbox,
    overview,
    requests,
    webhooks,
    workloads,
)
from relay_localcloud.http.routing import Router

ROUTERS: Final[tuple[Router, ...]] = (
    overview.router,
    workloads.router,
    nodes.router,
    money.router,
    batches.router,
    webhooks.router,
    requests.router,
    faults.router,
    outbox.router,
    clock.router,
    actions.router,
    files.router,
)
