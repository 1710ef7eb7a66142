"""The label with which the webhook Service selects the leader's Pod."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from relay_kube.errors import KubeError, NotFound, Refused
from relay_kube.kube import PODS, JsonObject, ResourceType
from relay_operator.api.meta import LEADER_LABEL

_RETRY_SECONDS = 5.0

_log = logging.getLogger(__name__)


class PodApi(Protocol):
    """The part of `Kube` that the label needs."""

    async def patch(
        self, kind: ResourceType, namespace: str | None, name: str, body: Mapping[str, JsonValue]
    ) -> JsonObject: ...


@dataclass(frozen=True, slots=True)
class LeaderLabel:
    """The label on this process's own Pod; outside of a cluster (no Pod name) it does nothing."""

    api: PodApi
    namespace: str
    pod: str | None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def put(self, *, leading: bool, on_try: Callable[[], None] = lambda: None) -> None:
        """Label the Pod, or remove a former process's label from it; retries until it succeeds or is refused.

        Call it with False before standing for election, and with True, beside the work, once elected. `on_try` is
        called before each try, as a sign of life.
        """
        if self.pod is not None:
            await self._write(self.pod, leading=leading, on_try=on_try)

    async def take_from(self, former: str) -> None:
        """Remove the label from the former leader's Pod: a frozen leader cannot, and would receive deliveries.

        `former` is the Lease's former holder: the name of a Pod, possibly gone, or of something that is not a Pod.
        """
        if self.pod is not None and former not in ("", self.pod):
            await self._write(former, leading=False)

    async def _write(self, pod: str, *, leading: bool, on_try: Callable[[], None] = lambda: None) -> None:
        body: JsonObject = {"metadata": {"labels": {LEADER_LABEL: "true" if leading else None}}}
        while True:
            on_try()
            try:
                await self.api.patch(PODS, self.namespace, pod, body)
            except (NotFound, Refused) as refused:
                if leading or pod == self.pod:
                    _log.warning("webhooks may not arrive, since the Pod %s cannot be labelled: %s", pod, refused)
            except KubeError as error:
                _log.warning("the Pod %s cannot be labelled yet: %s", pod, error)
                await self.sleep(_RETRY_SECONDS)
                continue
            return
