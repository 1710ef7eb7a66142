"""`/metrics`, `/healthz` and `/readyz` of one replica, for Kubernetes and Prometheus."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from aiohttp import hdrs, web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from relay_operator.observability.metrics import Metrics


@dataclass(slots=True)
class Heartbeat:
    """Shows whether a loop still runs: it must beat at least every `longest` seconds."""

    longest: float
    clock: Callable[[], float]
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def beat(self) -> None:
        self._last = self.clock()

    def silence(self) -> str | None:
        """None while the loop runs, else the message for `/healthz`."""
        silent = self.clock() - self._last
        return f"silent for {silent:.0f} s" if silent > self.longest else None


Check = Callable[[], str | None]
"""Returns None if all is well, else what is wrong."""


def health_app(metrics: Metrics, alive: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    """The app of one replica.

    `alive` are the loops without which the process must be restarted; an answer by itself proves that the event loop
    runs. `ready` is what a replica needs before it counts: CRDs found, and caches filled or standby. A loop that ended
    for good belongs to neither, since it ends the process.
    """
    app = web.Application()
    app.router.add_get("/metrics", _shows(metrics.registry))
    app.router.add_get("/healthz", _answers(alive))
    app.router.add_get("/readyz", _answers({**alive, **ready}))
    return app


def _shows(registry: CollectorRegistry) -> Callable[[web.Request], Awaitable[web.Response]]:
    turn = asyncio.Lock()

    async def show(request: web.Request) -> web.Response:
        encode, content_type = choose_encoder(",".join(request.headers.getall(hdrs.ACCEPT, [])))
        names = request.query.getall("name[]", [])
        async with turn:  # many series take long: in a thread, and one scrape after another, they hold up nobody
            body = await asyncio.to_thread(encode, registry.restricted_registry(names) if names else registry)
        response = web.Response(body=body, headers={hdrs.CONTENT_TYPE: content_type})
        response.enable_compression()
        return response

    return show


def _answers(checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        problems = [f"{name}: {problem}" for name, check in checks.items() if (problem := check()) is not None]
        return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")

    return answer
