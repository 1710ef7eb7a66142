"""Records that a cloud may neither list nor delete, since its description shows only their create.

Such a record counts as unchanged since its create; only the cloud's own word for its end releases it.
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
_REMEMBERED: Final = 10_000
"""Deleted records; one that is forgotten too soon is deleted again."""


class MaybeUnlisted(Records[SpecT, StatusT, RecordT], Generic[SpecT, StatusT, RecordT]):
    """How such a record is observed and deleted."""

    noun: str
    """What a record is called: `pool`."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._ended: dict[tuple[str, str, str], None] = {}
        """URL, organization and id of the latest records that the cloud confirmed as deleted."""

    @abstractmethod
    def as_made(self, cloud_id: str, last: StatusT) -> RecordT:
        """The record as its create left it, rebuilt from status; without a name, since a status proves none."""

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> RecordT:
        try:
            return await super().observe(cloud, cloud_id, last, look)
        except NotServed as error:
            if last.id != cloud_id:
                raise
            if (cloud.base_url, await cloud.organization_id(), cloud_id) in self._ended:
                told = f"the cloud answered that it deleted the {self.noun} {cloud_id}"
                raise NotFound(error.operation, told) from error
            return self.as_made(cloud_id, last)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Raises NotServed if the cloud has no such call, or if nothing shows what its 404 refers to."""
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
        self._ended[cloud.base_url, await cloud.organization_id(), cloud_id] = None
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]

    async def _is_listed(self, cloud: Cloud, cloud_id: str) -> bool | None:
        """Whether the list has the id; None if the cloud has no list."""
        try:
            return cloud_id in await self._listed(cloud)
        except NotServed:
            return None
