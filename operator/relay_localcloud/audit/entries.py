"""The entries of the audit log, separate for each organization and for the platform (`organization_id` None).

An entry is written in the transaction of the change that it describes, so neither exists without the other. What takes
more than one transaction (an upload, a change of the clock, a button of the console) has its entry in one that follows:
the entry is missing if the cloud is killed, or its disk fails, between the two.
Uses of models are not changes. A refusal has an entry if the caller lacked the right (403).

Entries hold no secrets: of a request only its operation and the ids of objects are stored, of a key only its prefix;
a path parameter is stored as an id only if the object was found or the text has the form of an id.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, Final, Literal

from pydantic import BaseModel
from sqlalchemy import Index, Table, bindparam, delete, func, select, union_all
from starlette.responses import Response
from starlette.types import Scope

from relay_localcloud.http.errors import ApiError
from relay_localcloud.http.exchange import Exchange, exchange_of
from relay_localcloud.http.visitors import as_written
from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.rows import Rows, shown
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

KEPT: Final = 10_000
"""The newest entries of each organization; each takes less than half a KiB."""

_USES: Final = frozenset({"POST /v1/chat/completions", "POST /v1/messages"})
_REPLACEMENTS: Final = frozenset({"POST /_localcloud/import", "POST /_localcloud/reset"})
"""Operations that replace the state, and its log with it."""
_UNRECORDED: Final = _USES | _REPLACEMENTS
_NO_OBJECTS: Final = frozenset({"orgId", "token"})
"""Path parameters that are not ids of objects."""
_LONGEST_ID: Final = 100
_LARGEST_ANSWER: Final = 64 * 1024
_ID: Final = re.compile(r"[a-z]+_[0-9a-f]{20}")
"""The form of this cloud's identifiers; secrets are longer."""

Kind = Literal["api_key", "user", "administrator", "ssh_key"]
LOGIN: Final = "SSH login"
"""The operation of a login through the SSH gateway."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that was done, or forbidden."""

    sequence: int
    organization_id: str | None
    number: int  # of its organization's entries
    at: int
    actor_kind: str
    actor: str | None  # the prefix of an API key, the id of a user or of an SSH key
    address: str | None
    operation: str
    object_id: str | None
    forbidden: bool = False

    def as_json(self) -> dict[str, object]:
        """The entry as the control interface shows it."""
        return {**shown(self, *_SHOWN), "at": timestamp(self.at)}


_SHOWN: Final = tuple(each.name for each in fields(Entry) if each.name != "number")
ENTRIES: Final = Rows(Entry, "audit", Index("audit_of_organization", "organization_id", "number", unique=True))
_entry = ENTRIES.table.c
_LAST: Final = Prepared(
    select(func.max(_entry.number)).where(_entry.organization_id.is_not_distinct_from(bindparam("of_organization")))
)
_DROP: Final = Prepared(
    delete(ENTRIES.table).where(
        _entry.organization_id.is_not_distinct_from(bindparam("of_organization")), _entry.number <= bindparam("last")
    )
)


def record(tx: Tx, scope: Scope, outcome: object) -> None:
    """Store what a request did; `outcome` is what its endpoint returned, or the ApiError that it raised."""
    exchange = exchange_of(scope)
    if exchange.operation is None or exchange.operation in _UNRECORDED or not _concerns(outcome):
        return
    forbidden, caller = isinstance(outcome, ApiError), exchange.principal
    answered = {} if forbidden else _answered(outcome)
    in_path = _object_in_path(exchange)
    if forbidden and in_path is not None and not _ID.fullmatch(in_path):
        in_path = None
    organization_id = _organization_of(tx, exchange, answered, in_path)
    if caller is not None and organization_id is None:  # callers without an organization do not fill the platform log
        return
    _keep(
        tx,
        organization_id,
        actor_kind="administrator" if caller is None else caller.kind,
        actor=None if caller is None else caller.name,
        address=as_written(client[0]) if (client := scope.get("client")) else None,
        operation=exchange.operation,
        object_id=answered.get("id") or exchange.made or in_path,
        forbidden=forbidden,
    )


def record_login(tx: Tx, organization_id: str, key_id: str, address: str, object_id: str) -> None:
    """Store that somebody logged in to a pod, VM or replica with one of the organization's SSH keys."""
    _keep(
        tx,
        organization_id,
        actor_kind="ssh_key",
        actor=key_id,
        address=as_written(address),
        operation=LOGIN,
        object_id=object_id,
        forbidden=False,
    )


def _keep(tx: Tx, organization_id: str | None, **entry: object) -> None:
    number = (_LAST.run(tx.connection, of_organization=organization_id).fetchone()[0] or 0) + 1
    ENTRIES.insert(tx, organization_id=organization_id, number=number, at=tx.now, **entry)
    _DROP.run(tx.connection, of_organization=organization_id, last=number - KEPT)


def after(tx: Tx, sequence: int, count: int, organization_id: str | None) -> list[Entry]:
    """The next `count` entries after one, oldest first; of all organizations and the platform unless one is given."""
    whose = {} if organization_id is None else {"organization_id": organization_id}
    return ENTRIES.first(tx, count, _entry.sequence > sequence, **whose)


def _concerns(outcome: object) -> bool:
    match outcome:
        case ApiError(status=status):
            return status == 403
        case Response(status_code=status):
            return status < 400
    return True


def _answered(outcome: object) -> dict[str, str]:
    """The ids in the answer: of the object, and of its organization."""
    match outcome:
        case BaseModel():
            found: object = {
                "id": getattr(outcome, "id", None),
                "organizationId": getattr(outcome, "organization_id", None),
            }
        case Response(body=body, media_type="application/json") if len(body) <= _LARGEST_ANSWER:
            found = json.loads(bytes(body) or b"{}")
        case _:
            found = outcome
    if not isinstance(found, dict):
        return {}
    ids = ((name, found.get(name)) for name in ("id", "organizationId"))
    return {name: value[:_LONGEST_ID] for name, value in ids if isinstance(value, str)}


def _object_in_path(exchange: Exchange) -> str | None:
    named = [value for name, value in exchange.path_params.items() if name not in _NO_OBJECTS]
    return named[-1][:_LONGEST_ID] if named else None


def _organization_of(tx: Tx, exchange: Exchange, answered: Mapping[str, str], object_id: str | None) -> str | None:
    """The organization whose log it belongs to; never one that the caller is not a member of."""
    caller, in_path = exchange.principal, exchange.path_params.get("orgId")
    if caller is not None and caller.kind == "api_key":
        return caller.organization_id
    if caller is not None and in_path is not None and caller.belongs_to(in_path):
        return in_path
    if caller is not None and caller.admitted:
        return caller.admitted[-1]
    made = answered.get("organizationId") or _owner_of(tx, answered.get("id"))
    if caller is not None:
        return made or caller.organization_id or None
    return made or _owner_of(tx, in_path) or _owner_of(tx, object_id)


def _owner_of(tx: Tx, object_id: str | None) -> str | None:
    """The organization that owns the object, or is it; None if the platform owns it, or if it is gone."""
    if object_id is None:
        return None
    found = _find_owner().run(tx.connection, of_id=object_id).fetchone()
    return (found[0] or None) if found is not None else None


@cache
def _find_owner() -> Prepared:
    return Prepared(union_all(*_owners()))


def _owners() -> Iterator[Any]:
    organizations = metadata.tables["organizations"].c
    yield select(organizations.id).where(organizations.id == bindparam("of_id"))
    for table in metadata.sorted_tables:
        if _is_owned(table):
            yield select(table.c.organization_id).where(table.c.id == bindparam("of_id"))


def _is_owned(table: Table) -> bool:
    return {"id", "organization_id"} <= {column.name for column in table.columns}
