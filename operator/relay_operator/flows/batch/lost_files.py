"""Whether the cloud has the files that status names."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from relay_client import Cloud, NotFound
from relay_client.operations import GET_FILE


@dataclass(frozen=True, slots=True)
class LostFiles:
    """A 404 is believed when it comes again: what is taken for lost is never published, and deleted."""

    seconds: float
    """Between the first 404 and the one that is believed."""
    sleep: Callable[[float], Awaitable[None]]

    async def missing(self, cloud: Cloud, ids: Iterable[str]) -> frozenset[str]:
        """Those of the files that the cloud does not have. Raises CloudError."""
        unseen = await _unseen(cloud, ids)
        if unseen:
            await self.sleep(self.seconds)
            unseen = await _unseen(cloud, unseen)
        return frozenset(unseen)


async def _unseen(cloud: Cloud, ids: Iterable[str]) -> list[str]:
    unseen = []
    for file_id in ids:
        try:
            await cloud.call(GET_FILE, id=file_id)
        except NotFound:
            unseen.append(file_id)
    return unseen
