"""An informer that remembers what it was told."""

import asyncio
from datetime import UTC, datetime

import aiohttp

from relay_kube.kube import ApiAccess, Kube
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.cache import Cache
from relay_operator.engine.informer import Informer
from relay_operator.engine.queue import Queue
from relay_operator.engine.vanished import Vanished
from tests.unit.engine.apiserver import Json, part


class Listener(Informer):
    """An informer that remembers what kopf told it."""

    def __init__(self) -> None:
        cache, queue = Cache(), Queue[ObjectKey](lambda: 0.0)
        session = aiohttp.ClientSession()
        session.detach()  # Nothing is sent.
        kube = Kube(ApiAccess("", session))
        vanished = Vanished(kube, "relay-system", cache, queue, lambda: datetime.now(UTC), frozenset({"GpuPod"}))
        super().__init__(cache, queue, vanished, lambda: 0.5, 300.0)
        self.told: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def seen(self, kind: str, raw: Json) -> None:  # type: ignore[override]
        super().seen(kind, raw)
        self.told.put_nowait((_of(raw, "name"), _of(raw, "resourceVersion")))

    def gone(self, kind: str, raw: Json) -> None:  # type: ignore[override]
        super().gone(kind, raw)
        self.told.put_nowait((_of(raw, "name"), "gone"))


def _of(raw: Json, field: str) -> str:
    return str(part(raw, "metadata")[field])
