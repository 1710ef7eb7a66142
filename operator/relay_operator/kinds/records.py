"""What all records of an organization share: they have a name, no state of their own, and are read by one list."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

from relay_client import Cloud, NotFound, NotServed, Unreadable
from relay_client.errors import clause
from relay_client.operations import Operation
from relay_operator.api.workload import SpecT, StatusT
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import (
    CannotTell,
    ExternalResource,
    Found,
    Look,
    NotSeen,
    Progress,
    SearchResult,
)
from relay_operator.flows.wiring import Parts
from relay_wire.base import Items

UNSERVED: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED})
"""How a cloud answers to a path, or a method, that it does not have."""
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
    """How a kind of record maps to the cloud, but for its create, its delete and what it shows."""

    list_operation: Operation[None, Items[RecordT]]
    """The list without pages that has all of the organization's."""
    list_query: Mapping[str, str | int] | None = None
    """What it is asked with."""
    delete_operation: Operation[None, object]
    """What ends the record with an `id`; a kind that has more to say of its end has a `delete` of its own."""

    def __init__(self, parts: Parts) -> None:
        self._lists = SharedLists[Mapping[str, RecordT]](parts.settings.poll_settled_seconds, parts.engine.clock)

    async def _listed(self, cloud: Cloud) -> Mapping[str, RecordT]:
        """Raises NotServed if the cloud has no such list: that says nothing of what would be in it."""
        try:
            listed = await cloud.call(self.list_operation, query=self.list_query)
        except (NotFound, NotServed, Unreadable) as error:
            if error.status not in UNSERVED:
                raise
            raise NotServed(error.operation, f"{NO_LIST} ({clause(error.message)})", status=error.status) from error
        return {record.id: record for record in listed.items}

    async def observe(self, cloud: Cloud, cloud_id: str, last: StatusT, look: Look) -> RecordT:
        """As a list has it that all share; what was made since that was read is in the next."""
        found = None
        if look is Look.ROUTINE:
            found = (await self._lists.recent(cloud, lambda: self._listed(cloud))).get(cloud_id)
        if found is None:
            found = (await self._lists.fresh(cloud, lambda: self._listed(cloud))).get(cloud_id)
        if found is None:
            raise NotFound(self.list_operation.name, f"the id {cloud_id} is not in the list")
        return found

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> SearchResult[RecordT]:
        try:
            listed = await self._lists.fresh(cloud, lambda: self._listed(cloud))
        except NotServed:
            return CannotTell()
        return next((Found(record) for record in listed.values() if record.name == name), NotSeen())

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(self.delete_operation, id=cloud_id)

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """An organization where nobody asked for such a record is not asked for the list."""
        if not self._lists.asked_for(cloud):
            return {}
        listed = await self._lists.recent(cloud, lambda: self._listed(cloud))
        living = (record for record in listed.values() if self.progress(record) is not Progress.GONE)
        return {record.id: record.name or "" for record in living}

    def progress(self, observed: RecordT) -> Progress:
        return Progress.READY

    def identity(self, observed: RecordT) -> tuple[str, str]:
        return observed.id, observed.name or ""

    def detail(self, observed: RecordT) -> str:
        return f"the cloud has it as {observed.id}"
