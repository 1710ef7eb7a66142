"""kopf's watches, feeding the cache and the queue. With `__main__`, the only import of kopf."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Any, NoReturn, cast

import kopf
from kopf._cogs.clients.errors import APIError
from kopf._cogs.clients.watching import WatchingError
from kopf._core.engines.peering import Identity

from relay_operator.api.meta import GROUP, VERSION
from relay_operator.engine.informer import Informer
from relay_operator.engine.kube import JsonObject


class _NoDiffs(kopf.DiffBaseStorage):
    """Nothing is ever compared: only raw events are handled, and essences would cost time and memory for each."""

    def build(self, *, body: kopf.Body, extra_fields: object = None, ignored_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is ever stored."""


def _registry(informer: Informer, plurals: Mapping[str, str]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def observe(event: kopf.RawEvent, param: str = "", **_: object) -> None:
        raw = cast("JsonObject", event["object"])
        (informer.gone if event["type"] == "DELETED" else informer.seen)(param, raw)

    for kind, plural in plurals.items():
        kopf.on.event(GROUP, VERSION, plural, registry=registry, param=kind)(observe)

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - kopf's own protocol
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    return registry


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True  # no list and watch on CRDs and namespaces: less to be allowed
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.queueing.idle_timeout = 1.0  # a task an object lives that long after its last event
    settings.watching.chunk_size = 500
    settings.process.ultimate_exiting_timeout = None  # how the process ends is not kopf's to decide
    return settings


_ENDING_SECONDS = 5.0
_IDENTITY = Identity("relay-operator")
"""kopf would ask who runs it otherwise, and a container's user has no name. Nothing reads it: there is no peering."""
WATCH_ERRORS: tuple[type[BaseException], ...] = (APIError, WatchingError)
"""What ends a watch where the API server fails. kopf logs each of them itself; a traceback would tell nothing more."""


class WatchEndedError(Exception):
    """A watch failed in another way than by expiring."""


async def watch(
    informer: Informer, plurals: Mapping[str, str], namespaces: Collection[str], take_back_signals: Callable[[], None]
) -> NoReturn:
    """Watch every kind until cancelled.

    `plurals` by kind; no namespaces means all. `take_back_signals` is called once kopf has put its own handlers of
    SIGTERM and SIGINT in place of the process's. Raises WatchEndedError where a watch fails in another way than by
    expiring: the process must end with it, and start again.
    """
    # Not `kopf.operator`: at its end that cancels every task of the loop that is younger than itself, ours included.
    tasks = await kopf.spawn_tasks(
        registry=_registry(informer, plurals),
        settings=_settings(),
        clusterwide=not namespaces,
        namespaces=tuple(namespaces),
        standalone=True,
        identity=_IDENTITY,
    )
    take_back_signals()
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        causes = [error for task in done if not task.cancelled() and (error := task.exception()) is not None]
        raise WatchEndedError(f"a watch failed: {causes[0] if causes else 'it ended by itself'}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=_ENDING_SECONDS)
