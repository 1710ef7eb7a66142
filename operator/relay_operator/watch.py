"""kopf's watches, feeding the cache and the queue. With `__main__`, the only import of kopf."""

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from typing import Any, TypedDict

import kopf
from pydantic import JsonValue

from relay_operator.api.meta import GROUP, VERSION
from relay_operator.engine.feed import Feed


class _NoDiffs(kopf.DiffBaseStorage):
    """Nothing is ever compared: only raw events are handled, and essences would cost time and memory for each."""

    def build(self, *, body: kopf.Body, extra_fields: object = None, ignored_fields: object = None) -> kopf.BodyEssence:
        return kopf.BodyEssence({})

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Nothing is ever stored."""


class _Event(TypedDict):
    """A raw watch event; type None marks what the initial list found."""

    type: str | None
    object: dict[str, JsonValue]


def _registry(feed: Feed, plurals: Mapping[str, str]) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def observe(event: _Event, param: str, **_: object) -> None:
        if event["type"] == "DELETED":
            feed.gone(param, event["object"])
        else:
            feed.seen(param, event["object"])

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
    return settings


async def watch(feed: Feed, plurals: Mapping[str, str], namespaces: Collection[str], stop: asyncio.Event) -> None:
    """Watch every kind until told to stop.

    `plurals` by kind; no namespaces means all. Ends with an error where a watch fails in another way than by
    expiring: the process must end with it, and start again.
    """
    with contextlib.suppress(asyncio.CancelledError):
        await kopf.operator(
            registry=_registry(feed, plurals),
            settings=_settings(),
            clusterwide=not namespaces,
            namespaces=tuple(namespaces),
            standalone=True,
            stop_flag=stop,
        )
