"""The check right before a request that changes something in the cloud is sent."""

from collections.abc import Callable, Mapping

from relay_kube.errors import Unavailable
from relay_operator.api.meta import ABANDON, ADOPT_ID, RETRY_CREATE, ObjectKey, ObjectMeta
from relay_operator.engine.cache import Cache
from relay_operator.engine.commands import let_go

_ANSWERS = (ADOPT_ID, ABANDON, RETRY_CREATE)
"""Annotations that say what becomes of the object's resource; they change no generation."""


_TOLD = "the object changed, or lost its place in a budget, before the request was sent: the operator decides again"


class SupersededError(Unavailable):
    """Nothing was sent: the object is no longer the one that was decided on."""

    def __init__(self) -> None:
        super().__init__(0, "Superseded", _TOLD)


def fence(
    cache: Cache, key: ObjectKey, metadata: ObjectMeta, cloud_id: str | None, token: str | None = None
) -> Callable[[], bool]:
    """Returns a check of whether the decision still stands, for the moment before a request is sent.

    It stands while the object, its generation and what people say of its resource are the same, people do not hold it
    back, and no other object records its resource. Waiting for a connection and for the account's rate limit, and
    trying again, take time, in which the watch goes on.
    """
    decided_on = (metadata.uid, metadata.generation, metadata.deletion_timestamp is not None)
    answers = _answers(metadata.annotations)

    def stands() -> bool:
        entry = cache.get(key)
        if entry is None or (entry.uid, entry.generation, entry.deleting) != decided_on:
            return False
        if _answers(dict(entry.asked)) != answers:
            return False
        return not entry.spared and not cache.others(key, cloud_id, token)

    return stands


def _answers(annotations: Mapping[str, str]) -> list[str | None]:
    return [annotations.get(name) for name in _ANSWERS]


def first(holders: frozenset[ObjectKey]) -> str:
    """One of the objects, always the same."""
    return min(map(str, holders))


def about_anothers(cloud_id: str, holders: frozenset[ObjectKey]) -> str:
    """The message about an answer to a create that has the id of another object's resource."""
    return f"the answer is about {cloud_id}, which belongs to {first(holders)}"


def shared(cloud_id: str, key: ObjectKey, others: frozenset[ObjectKey]) -> str:
    """The message about a resource that two objects record: either may be wrong, so that neither touches it."""
    whose = ", ".join(sorted(map(str, others)))
    return (
        f"the resource {cloud_id} is also recorded by {whose}: neither changes nor ends it. To leave it to the other, "
        f"{let_go(key)}"
    )
