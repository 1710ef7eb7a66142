"""What all records of an organization share: they have a name, have no state of their own, and are read by one list."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

from relay_client import Cloud, NotFound, NotServed, Unreadable, items_of
from relay_client.errors import clause
from relay_client.operations import Operation
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import CannotTell, ExternalResource, Look, Progress, SearchResult
from relay_operator.flows.wiring import Parts
from relay_operator.kinds.by_name import by_name
from relay_wire.base import Page

UNSERVED: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""The answers of a cloud that does not have the path or the method."""
BY_HAND: Final = "the cloud has no call that deletes {}: delete it in the cloud's console"
NO_LIST: Final = "the cloud has no list of this kind, so the operator cannot look at it"


class Record(Protocol):
    """A row of such a list."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str | None: ...


RecordT = TypeVar("RecordT", bound=Record)


class Records(ExternalResource[SpecT, StatusT, RecordT], Generic[SpecT, StatusT, RecordT]):
    """How a kind of record maps to the cloud, except its create and what status shows."""

    list_operation: Operation[None, Page[RecordT]]
    """The list of all records of the organization."""
    list_query: Mapping[str, str | int] | None = None
    """The query of the list."""
    only_listed = True
    delete_operation: Operation[None, object]
    """Deletes the record with that `id`; a kind that needs more for its end overrides `delete`."""

    def __init__(self, parts: Parts) -> None:
        self._lists = SharedLists[Mapping[str, RecordT]](parts.settings.poll_settled_seconds, parts.engine.clock)

    async def _listed(self, cloud: Cloud) -> Mapping[str, RecordT]:
        """The records by id. Raises NotServed if the cloud has no such list, which says nothing about the records."""
        try:
            listed = await items_of(cloud, self.list_operation, query=self.list_query)
        except (NotFound, NotServed, Unreadable) as error:
            if error.status not in UNSERVED:
                raise
            raise NotServed(error.operation, f"{NO_LIST} ({clause(error.message)})", status=error.status) from error
        return {record.id: record for record in listed}

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> RecordT:
        """The record as the shared list shows it; if that list lacks it, as a fresh one does. Raises NotFound."""
        for read in (self._lists.recent, self._lists.fresh) if look is Look.ROUTINE else (self._lists.fresh,):
            if (found := (await read(cloud, lambda: self._listed(cloud))).get(cloud_id)) is not None:
                return found
        raise NotFound(self.list_operation.name, f"the id {cloud_id} is not in the list")

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[RecordT]:
        try:
            listed = await self._lists.fresh(cloud, lambda: self._listed(cloud))
        except NotServed:
            return CannotTell()
        return by_name(listed.values(), name, self._lives)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(self.delete_operation, id=cloud_id)

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Empty, without a request, for an organization whose list nobody has asked for yet."""
        if not self._lists.asked_for(cloud):
            return {}
        listed = await self._lists.recent(cloud, lambda: self._listed(cloud))
        return {record.id: record.name or "" for record in filter(self._lives, listed.values())}

    def _lives(self, record: RecordT) -> bool:
        return self.progress(record) is not Progress.GONE

    def of_another(self, obj: Resource[SpecT, StatusT], intent: CreateIntent, made: RecordT) -> tuple[str, ...]:
        """Everything that differs in an answer without a name."""
        return () if made.name else self.differences(obj, made)

    def progress(self, observed: RecordT) -> Progress:
        return Progress.READY

    def identity(self, observed: RecordT) -> tuple[str, str]:
        return observed.id, observed.name or ""

    def detail(self, observed: RecordT) -> str:
        return f"the cloud has it as {observed.id}"
