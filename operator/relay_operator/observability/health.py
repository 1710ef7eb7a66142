"""`/metrics`, `/healthz` and `/readyz`: what Kubernetes and Prometheus ask of a replica."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from relay_operator.observability.metrics import Metrics


@dataclass(slots=True)
class Heartbeat:
    """Tells whether a loop still turns: it must beat at least every `longest` seconds."""

    longest: float
    clock: Callable[[], float]
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def beat(self) -> None:
        self._last = self.clock()

    def silence(self) -> str | None:
        """None while the loop turns, else the sentence for `/healthz`."""
        silent = self.clock() - self._last
        return f"silent for {silent:.0f} s" if silent > self.longest else None


Check = Callable[[], str | None]
"""Answers None if all is well, else what is not."""


def health_app(metrics: Metrics, alive: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """The app of one replica.

    `alive` are the loops without which the process must be restarted: that the event loop turns is shown by the
    answer itself. `ready` is what has to be there before the replica counts: CRDs found, caches filled or standby.
    A loop that ended for good belongs to neither: it ends the process.
    """
    app = web.Application()
    app.router.add_get("/metrics", make_aiohttp_handler(metrics.registry))
    app.router.add_get("/healthz", _answers(alive))
    app.router.add_get("/readyz", _answers({**alive, **ready}))
    return app


def _answers(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        problems = [f"{name}: {problem}" for name, check in checks.items() if (problem := check()) is not None]
        return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")

    return answer
