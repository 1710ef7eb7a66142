"""Whether a cluster has kinds that are not Kubernetes' own, now or later."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Final, NoReturn

from relay_kube.errors import KubeError
from relay_kube.kube import Kube, ResourceType

_log = logging.getLogger(__name__)

ASKED_EVERY: Final = 60.0


class Discovery:
    """Asks a cluster now and then whether it has all of the kinds."""

    def __init__(self, kube: Kube, kinds: Sequence[ResourceType]) -> None:
        self._kube = kube
        self._kinds = kinds
        self.are_served = False

    async def run(self, *following: Callable[[], Coroutine[None, None, NoReturn]]) -> NoReturn:
        """Ask until cancelled, and begin what follows the kinds once they are there."""
        async with asyncio.TaskGroup() as tasks:
            waiting = list(following)
            while True:
                await self._ask()
                while self.are_served and waiting:
                    tasks.create_task(waiting.pop()())
                await asyncio.sleep(ASKED_EVERY)

    async def _ask(self) -> None:
        try:
            self.are_served = all([await self._kube.serves(kind) for kind in self._kinds])
        except KubeError as error:
            _log.info("whether a cluster has %s is not known: %s", self._kinds[0].plural, error)
