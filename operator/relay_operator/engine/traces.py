"""What a kind can tell of resources in the cloud without one of its objects."""

from collections.abc import Mapping
from typing import Protocol

from relay_client import Cloud
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.entry import Entry
from relay_operator.engine.unclaimed_ids import UnclaimedIds


class Traces(Protocol):
    """One kind's. The first three do I/O and raise CloudError; the others answer from what is known.

    The cloud is asked for one by its id, or by its `address`.
    """

    async def living(self, cloud: Cloud, unclaimed: UnclaimedIds) -> Mapping[str, str]:
        """Names by id, of all that lives, as far as lists and webhooks tell; a bounded number of requests."""
        ...

    async def name_of(self, cloud: Cloud, cloud_id: str) -> str | None:
        """Its name, empty if the cloud does not tell; None if it is gone."""
        ...

    async def end(self, cloud: Cloud, cloud_id: str) -> None:
        """Terminate it. Repeatable."""
        ...

    def giver(self, name: str) -> ObjectKey | None:
        """The object that gave this name, if it is there."""
        ...

    def ours(self, name: str) -> bool:
        """Whether an object of this installation gave it, be it there or gone."""
        ...

    def is_searched(self, name: str, giver: Entry) -> bool:
        """Whether the object that gave it finds out by itself what became of this create."""
        ...
