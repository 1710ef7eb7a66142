"""What a kind knows of its resources in the cloud without any of its objects."""

from collections.abc import Mapping
from typing import Protocol

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import Entry
from relay_operator.engine.unclaimed_ids import UnclaimedIds


class Traces(Protocol):
    """The traces of one kind. The first four methods do I/O and raise CloudError; the others answer from memory.

    A resource is given by its id, or by its `address`.
    """

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Names by id of all living resources that lists and webhooks show; takes a bounded number of requests."""

    async def name_of(self, cloud: Cloud, cloud_id: str) -> str | None:
        """The resource's name, empty if the cloud does not say; None if it is gone."""

    async def end(self, cloud: Cloud, cloud_id: str) -> None:
        """Terminate the resource. Repeatable."""

    async def is_restored(self, cloud: Cloud, giver: Entry, name: str) -> bool:
        """Whether the object that gave the name may have lost it, as by a restore or an edit of `status.id`.

        It records no later create, and what it records is gone.
        """

    def giver(self, name: str) -> ObjectKey | None:
        """The object that gave this name; None if it does not exist."""

    def ours(self, name: str) -> bool:
        """Whether an object of this installation gave the name; the object may be gone."""

    def is_searched(self, name: str, giver: Entry) -> bool:
        """Whether the object that gave the name finds out by itself what became of this create."""
