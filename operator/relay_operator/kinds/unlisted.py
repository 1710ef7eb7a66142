"""Records of which a cloud may have neither the list nor the end, since its description shows the create alone.

Then what was made is taken to be there as it was made, and nothing but the cloud's own word for its end lets go of it.
"""

from abc import abstractmethod
from typing import Final, Generic

from relay_client import Cloud, CloudError, NotFound, NotServed
from relay_operator.api import meta
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.flows.managed.resource import Look
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.records import BY_HAND, UNSERVED, Records, RecordT

_UNSEEN: Final = f'there is no list that tells whether it is gone, so annotate {meta.ABANDON}="true" then'


class MaybeUnlisted(Records[SpecT, StatusT, RecordT], Generic[SpecT, StatusT, RecordT]):
    """How such a record is looked at and ended."""

    noun: str
    """What one is called: `pool`."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._ended: set[tuple[str, str]] = set()
        """Organizations and ids that the cloud said to have deleted."""

    @abstractmethod
    def as_made(self, cloud_id: str, last: StatusT) -> RecordT:
        """The record as status tells it, of a cloud that tells nothing of it since it was made."""
        ...

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> RecordT:
        try:
            return await super().observe(cloud, cloud_id, last, look)
        except NotServed as error:
            if last.id != cloud_id:
                raise
            if (await cloud.organization_id(), cloud_id) in self._ended:
                told = f"the cloud answered that it deleted the {self.noun} {cloud_id}"
                raise NotFound(error.operation, told) from error
            return self.as_made(cloud_id, last)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Raises NotServed if the cloud has no such call, or if nothing tells what its 404 is about."""
        try:
            await super().delete(cloud, cloud_id)
        except CloudError as error:
            if error.status not in UNSERVED:
                raise
            listed = await self._is_listed(cloud, cloud_id)
            if listed is False:
                raise NotFound(error.operation, f"the id {cloud_id} is not in the list", status=error.status) from error
            told = BY_HAND if listed else f"{BY_HAND}; {_UNSEEN}"
            raise NotServed(error.operation, told.format(cloud_id), status=error.status) from error
        self._ended.add((await cloud.organization_id(), cloud_id))

    async def _is_listed(self, cloud: Cloud, cloud_id: str) -> bool | None:
        """None: the cloud has no list."""
        try:
            return cloud_id in await self._listed(cloud)
        except NotServed:
            return None
