"""Former resources: another one has their place, and they are kept as long as others use them. Pure."""

from collections.abc import Sequence
from datetime import datetime

from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import MAX_FORMER, BlueGreenStatus, Former, ManagedStatus, SupersedingStatus
from relay_operator.engine.cache import Cache
from relay_operator.engine.intent import named

FULL = f"{MAX_FORMER} former ones are in use, which is the limit: recreate what uses them"
STUCK = f"{MAX_FORMER} former ones are not ended yet, which is the limit: another takes its place once one of them is"


def supersedes(status: ManagedStatus) -> bool:
    """Whether a successor is always created beside the resource, which is not ended first."""
    return isinstance(status, SupersedingStatus) and not isinstance(status, BlueGreenStatus)


def former(status: ManagedStatus) -> Sequence[Former]:
    """The former resources."""
    return (status.former or ()) if isinstance(status, SupersedingStatus) else ()


def is_full(status: ManagedStatus) -> bool:
    """Whether status can hold no more former resources."""
    return len(former(status)) >= MAX_FORMER


def with_present(status: ManagedStatus, until: datetime | None = None) -> list[Former]:
    """The former resources with the present one, which lives until then; None is without a limit."""
    name = named(status.id or "", status.cloud_name or "")
    return [*former(status), Former(id=status.id or "", name=name, until=until)]


def name_of(row: Former) -> str | None:
    """The row's name in the cloud; None if status could not hold it, so that the row has its id there."""
    return None if row.name == row.id else row.name


def without(status: ManagedStatus, gone: Former) -> list[Former] | None:
    """The former resources without this one; None if none is left."""
    return [row for row in former(status) if row != gone] or None


def unused(status: ManagedStatus, cache: Cache, key: ObjectKey, now: datetime | None = None) -> Sequence[Former]:
    """The former resources that may be ended: no object uses them, and no create that could is in progress.

    `now` is None if the object itself is being deleted: then those that have time left are ended as well.
    """
    rows = [row for row in former(status) if _is_due(status, row, now)]
    if not rows:
        return ()
    users = [entry for other in cache.holders(key) if (entry := cache.get(other)) is not None]
    if any(entry.searching for entry in users):
        return ()
    return [row for row in rows if not any(entry.says(row.id) for entry in users)]


def _is_due(status: ManagedStatus, row: Former, now: datetime | None) -> bool:
    """Whether it may be ended: once another has its place, at its time, or when the next one is put aside."""
    if now is None or row.until is None:
        return True
    return bool(status.id) and (now >= row.until or row != former(status)[-1])
