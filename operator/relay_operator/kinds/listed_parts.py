"""Shared by kinds that are part of another cloud resource (the whole) and that only a list of its parts shows."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from relay_client import Cloud, CloudError, NotFound, NotServed
from relay_client.errors import clause
from relay_operator.api.meta import ObjectKey, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.address import parts_of
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed.part_of import part_of
from relay_operator.flows.managed.resource import Change, ExternalResource, Look
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.records import BY_HAND, NO_LIST, UNSERVED


class Part(Protocol):
    """A row of such a list."""

    @property
    def id(self) -> str: ...
    @property
    def status(self) -> str | None: ...


PartT = TypeVar("PartT", bound=Part)


class ListedParts(ExternalResource[SpecT, StatusT, PartT], Generic[SpecT, StatusT, PartT]):
    """How such a kind finds, observes and ends its parts; all parts of one whole share a list."""

    only_listed = True
    noun: str
    """What the parts are called: `snapshots`."""
    whole_noun: str
    """What the whole is called: `VM`."""

    def __init__(self, parts: Parts) -> None:
        self._cache = parts.engine.cache
        self._lists = SharedLists[Mapping[str, PartT]](parts.settings.poll_settled_seconds, parts.engine.clock)

    @abstractmethod
    async def rows(self, cloud: Cloud, whole_id: str) -> Iterable[PartT]:
        """All parts of one whole. Raises CloudError, also if it could read only some of them."""

    @abstractmethod
    async def is_gone(self, cloud: Cloud, whole_id: str) -> bool:
        """Whether the whole has ended, read from elsewhere than this list. Raises CloudError."""

    @abstractmethod
    async def end(self, cloud: Cloud, whole_id: str, part_id: str) -> None:
        """Send the delete. Raises CloudError."""

    @abstractmethod
    def part_of(self, obj: Resource[SpecT, StatusT]) -> ObjectKey:
        """The object whose cloud resource is the whole."""

    async def fresh(self, cloud: Cloud, whole_id: str) -> Mapping[str, PartT]:
        """The parts by id, from a list whose read began after this call. Raises NotServed."""
        return await self._lists.fresh(cloud, partial(self._listed, cloud, whole_id), whole_id)

    async def siblings(self, cloud: Cloud, obj: Resource[SpecT, StatusT]) -> Iterable[PartT]:
        """All parts of the object's whole. Raises NotServed: a part that could not be found again is not created."""
        whole_id = part_of(obj.status)
        return (await self.fresh(cloud, whole_id)).values() if whole_id else ()

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> PartT:
        """The part as the shared list shows it; if that list lacks it, as a fresh one does. Raises NotFound."""
        whole_id, part_id = parts_of(cloud_id)
        if not whole_id:
            raise NotFound("list", f"the {self.whole_noun} of {part_id} is not known")
        listed = partial(self._listed, cloud, whole_id)
        for read in (self._lists.recent, self._lists.fresh) if look is Look.ROUTINE else (self._lists.fresh,):
            if (found := (await read(cloud, listed, whole_id)).get(part_id)) is not None:
                return found
        raise NotFound("list", f"the id {part_id} is not among the {self.noun} of {whole_id}")

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        """Raises NotServed if the cloud has no such call."""
        whole_id, part_id = parts_of(cloud_id)
        try:
            await self.end(cloud, whole_id, part_id)
        except CloudError as error:
            if error.status not in UNSERVED:
                raise
            if part_id not in await self._listed(cloud, whole_id):
                raise NotFound(error.operation, f"the id {part_id} is not in the list", status=error.status) from error
            raise NotServed(error.operation, BY_HAND.format(part_id), status=error.status) from error

    def references(self, obj: Resource[SpecT, StatusT]) -> tuple[ObjectKey, ...]:
        """Empty once the part exists: from then on it does not need the object of its whole."""
        return () if obj.status.id else (self.part_of(obj),)

    def giving(
        self, obj: Resource[SpecT, StatusT], observed: PartT, ids: Mapping[ObjectKey, str]
    ) -> tuple[Change, ...]:
        return ()

    def whole(self, obj: Resource[SpecT, StatusT]) -> str:
        """The whole's id; empty if its object has another account, whose resources this object's key must not reach.

        Asks the cache for the object's account, since a vanished object is no longer in the cache itself.
        """
        other = self.part_of(obj)
        mine, its = self._cache.account_of(obj.key), self._cache.account_of(other)
        return self._cache.cloud_id_of(other) if mine in {its, None} else ""

    def identity(self, observed: PartT) -> tuple[str, str]:
        return observed.id, ""

    def detail(self, observed: PartT) -> str:
        said = f", and says {observed.status}" if observed.status else ""
        return f"the cloud has it as {observed.id}{said}"

    async def _listed(self, cloud: Cloud, whole_id: str) -> Mapping[str, PartT]:
        """The parts by id; empty if the whole is gone. Raises NotServed if the cloud has no such list."""
        try:
            rows = await self.rows(cloud, whole_id)
        except CloudError as error:
            if error.status not in UNSERVED:
                raise
            if await self.is_gone(cloud, whole_id):
                return {}
            raise NotServed(error.operation, f"{NO_LIST} ({clause(error.message)})", status=error.status) from error
        return {row.id: row for row in rows}
