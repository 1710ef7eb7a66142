"""Resources that were put aside for another one, and are kept as long as others use them. Pure."""

from collections.abc import Sequence
from datetime import datetime

from relay_operator.api.meta import ObjectKey
from relay_operator.api.workload import MAX_FORMER, BlueGreenStatus, Former, ManagedStatus, SupersedingStatus
from relay_operator.engine.cache import Cache
from relay_operator.engine.intent import named

FULL = f"{MAX_FORMER} former ones are in use, which is the limit: recreate what uses them"


def supersedes(status: ManagedStatus) -> bool:
    """Whether another is made beside what is there, in place of ending that first, whatever the spec says."""
    return isinstance(status, SupersedingStatus) and not isinstance(status, BlueGreenStatus)


def former(status: ManagedStatus) -> Sequence[Former]:
    """Those that were put aside."""
    return (status.former or ()) if isinstance(status, SupersedingStatus) else ()


def with_present(status: ManagedStatus, until: datetime | None = None) -> list[Former]:
    """Those, and what is there now, which lives on until then."""
    name = named(status.id or "", status.cloud_name or "")
    return [*former(status), Former(id=status.id or "", name=name, until=until)]


def without(status: ManagedStatus, gone: Former) -> list[Former] | None:
    """Those that are left."""
    return [row for row in former(status) if row != gone] or None


def unused(status: ManagedStatus, cache: Cache, key: ObjectKey, now: datetime | None = None) -> Former | None:
    """The first that no resource of another object was given, nor may have been: its create may be under way.

    `now` is None if the end of all is asked for, also of those that have time left.
    """
    rows = [row for row in former(status) if _is_due(status, row, now)]
    if not rows:
        return None
    users = [entry for other in cache.holders(key) if (entry := cache.get(other)) is not None]
    if any(entry.searching for entry in users):
        return None
    return next((row for row in rows if not any(entry.says(row.id) for entry in users)), None)


def _is_due(status: ManagedStatus, row: Former, now: datetime | None) -> bool:
    """Not before another has its place; then at its time, or once the next is put aside."""
    if now is None or row.until is None:
        return True
    return bool(status.id) and (now >= row.until or row != former(status)[-1])
