"""What every route uses: the parts of one running local cloud, and how an endpoint gets them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from starlette.requests import Request

from relay_localcloud.clock.clock import Clock
from relay_localcloud.faults.layer import FaultRegistry
from relay_localcloud.http.arguments import Depends
from relay_localcloud.http.exchange import Operations
from relay_localcloud.http.ratelimit import RateLimiter
from relay_localcloud.http.requestlog import RequestLog
from relay_localcloud.http.turns import Turns
from relay_localcloud.http.under_way import UnderWay
from relay_localcloud.inference.funds import Funds
from relay_localcloud.inference.upstreams import Upstreams
from relay_localcloud.kernel.store import Store
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.runtimes.runtime import Containers
from relay_localcloud.webhooks.deliveries import Deliveries
from relay_localcloud.workloads.followers import Followers

if TYPE_CHECKING:
    from relay_localcloud.batches.runner import BatchRunner
    from relay_localcloud.batches.storage import FileStorage
    from relay_localcloud.batches.upload import Uploads


@dataclass(frozen=True)
class Cloud:
    """One local cloud. Every API has it among its parts."""

    store: Store
    clock: Clock
    deliveries: Deliveries
    requests: RequestLog
    faults: FaultRegistry
    rate_limiter: RateLimiter
    gateway_url: str
    inference_url: str
    upstreams: Upstreams
    funds: Funds
    files: "FileStorage"
    uploads: "Uploads"
    batches: "BatchRunner"
    vault: Vault
    operations: Operations
    """Every operation of every port."""
    under_way: UnderWay
    turns: Turns
    followers: Followers
    containers: Containers | None = None
    """The containers of workloads; None: workloads are simulated."""
    public_url: str | None = None
    """The URL at which the management port is reached; None: where a request was sent to."""

    def start_over(self) -> None:
        """Drop what goes on for the former state, and continue with the one that has just replaced it.

        Call it without an await after that commit: due items, calls and answers of the former state must not run.
        """
        self.under_way.end_others()
        self.store.reload()
        self.clock.reload()
        self.faults.reload()
        self.deliveries.start_over()
        self.batches.start_over()


async def _cloud_of(request: Request) -> Cloud:
    cloud = request.app.parts[Cloud]
    assert isinstance(cloud, Cloud)
    return cloud


CurrentCloud = Annotated[Cloud, Depends(_cloud_of)]
"""A parameter of an endpoint: `async def stop(cloud: CurrentCloud, ...)`."""
