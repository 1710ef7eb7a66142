"""When a key or token expires, in a cloud whose answers may leave it out. Pure."""

from datetime import datetime, timedelta
from typing import Protocol

from relay_operator.engine.fit_schema import moment


class Row(Protocol):
    """What the cloud says about one."""

    @property
    def id(self) -> str: ...
    @property
    def expires_at(self) -> str | None: ...


class Known(Protocol):
    """What status says about one."""

    @property
    def id(self) -> str | None: ...
    @property
    def expires_at(self) -> datetime | None: ...


def end_of(created_at: str | None, started_at: datetime, lives: timedelta | None) -> str | None:
    """When what was created expires; `started_at`, before the create, counts if the answer does not say when it was."""
    begun = moment(created_at) or started_at
    try:
        return None if lives is None else (begun + lives).isoformat()
    except OverflowError:
        return None


def expires(known: Known, row: Row) -> datetime | None:
    """When it expires; as status says if the row does not say."""
    return moment(row.expires_at) or (known.expires_at if known.id == row.id else None)
