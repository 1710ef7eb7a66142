"""What is asked in the moment before a request that changes something in the cloud is sent."""

from collections.abc import Callable

from relay_kube.kube import Unavailable
from relay_operator.api.meta import ObjectKey, ObjectMeta
from relay_operator.engine.cache import Cache
from relay_operator.engine.commands import let_go


class SupersededError(Unavailable):
    """Nothing was sent: the object is not what was decided on any more."""

    def __init__(self) -> None:
        super().__init__(0, "Superseded", "the object changed before the request was sent: the operator decides again")


def fence(
    cache: Cache, key: ObjectKey, metadata: ObjectMeta, cloud_id: str | None, token: str | None = None
) -> Callable[[], bool]:
    """Whether the decision still stands: it is the same object, as people left it, and nobody else records what it has.

    Waiting for a connection and for the account's rate takes its time, and the watch goes on meanwhile.
    """
    decided_on = (metadata.uid, metadata.generation, metadata.deletion_timestamp is not None)

    def stands() -> bool:
        entry = cache.get(key)
        if entry is None or (entry.uid, entry.generation, entry.deleting) != decided_on:
            return False
        return not entry.spared and not cache.others(key, cloud_id, token)

    return stands


def shared(cloud_id: str, key: ObjectKey, others: frozenset[ObjectKey]) -> str:
    """What is told of something that two objects record: either may be wrong, so that neither touches it."""
    whose = ", ".join(sorted(map(str, others)))
    return (
        f"the resource {cloud_id} is also recorded by {whose}: neither changes nor ends it. To leave it to the other, "
        f"{let_go(key)}"
    )
