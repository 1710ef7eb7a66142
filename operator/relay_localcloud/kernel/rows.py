"""One typed row: a dataclass whose fields are the columns of a table.

    @dataclass(frozen=True, slots=True)
    class Snapshot:
        sequence: int
        id: str
        status: SnapshotStatus
        ready_at: int | None = None

    SNAPSHOTS = Rows(Snapshot, "snapshots", Index("snapshots_by_status", "status"))

`sequence` counts rows and is the primary key, `id` is unique; a field that may be None is nullable, and its default is
the column's. Text, numbers and truth values are kept as they are, a StrEnum as text, tuples and models as JSON.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from enum import StrEnum
from types import NoneType
from typing import Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from sqlalchemy import BigInteger, Boolean, Column, ColumnElement, Connection, Integer, RowMapping, String, Table, Text
from sqlalchemy import insert as insert_into
from sqlalchemy import select as select_from
from sqlalchemy import update as change_in
from sqlalchemy.schema import SchemaItem

from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx

_RowT = TypeVar("_RowT")
_TYPES: Final = {int: BigInteger, str: String, bool: Boolean}


class Rows(Generic[_RowT]):
    """The rows of a table; `named` gives columns other names than their fields have."""

    def __init__(self, row: type[_RowT], name: str, *items: SchemaItem, named: Mapping[str, str] | None = None) -> None:
        self._row = row
        hints = get_type_hints(row)
        self.columns = {each.name: _column(each, hints[each.name], named or {}) for each in fields(row)}  # type: ignore[arg-type]
        self.table = Table(name, metadata, *self.columns.values(), *items)
        self._decoders = {field: decoder for field in self.columns if (decoder := _decoder(hints[field])) is not None}
        self._labelled = [column.label(field) for field, column in self.columns.items()]

    def of(self, values: Mapping[str, Any] | RowMapping) -> _RowT:
        """The row that has these values, as the table keeps them, by field."""
        decoded = {name: decode(values[name]) for name, decode in self._decoders.items() if values[name] is not None}
        return self._row(**{**values, **decoded})

    def insert(self, tx: Tx, **values: object) -> _RowT:
        """Keep a row; what is absent has its default, or is null."""
        statement = insert_into(self.table).returning(*self._labelled)
        return self.of(tx.connection.execute(statement, self._encoded(values)).mappings().one())

    def change(self, tx: Tx, row_id: str, **values: object) -> None:
        """Change fields of the row with this id."""
        mine = self.columns["id"] == row_id
        tx.connection.execute(change_in(self.table).where(mine).values(self._encoded(values)))

    def select(self, connection: Connection, *where: ColumnElement[bool], newest: int | None = None) -> list[_RowT]:
        """The rows for which all of this holds, the oldest first; with `newest` so many from the newest on."""
        query, order = select_from(*self._labelled).where(*where), self.columns["sequence"]
        query = query.order_by(order) if newest is None else query.order_by(order.desc()).limit(newest)
        return [self.of(row) for row in connection.execute(query).mappings()]

    def find(self, connection: Connection, row_id: str) -> _RowT | None:
        """The row with this id."""
        return next(iter(self.select(connection, self.columns["id"] == row_id)), None)

    def _encoded(self, values: Mapping[str, object]) -> dict[str, object]:
        return {self.columns[field].name: _encoded(value) for field, value in values.items()}


def _column(field: Field[Any], hint: Any, named: Mapping[str, str]) -> Column[Any]:  # noqa: ANN401 - a type
    name = named.get(field.name, field.name)
    if name == "sequence":
        return Column(name, Integer, primary_key=True)
    default = None if field.default is MISSING else field.default
    kept = _TYPES.get(_base(hint), String if _is(hint, StrEnum) else Text)
    return Column(name, kept, nullable=NoneType in get_args(hint), unique=name == "id" or None, default=default)


def _base(hint: Any) -> Any:  # noqa: ANN401 - as above, in both places
    optional = next((each for each in get_args(hint) if NoneType in get_args(hint) and each is not NoneType), hint)
    return get_origin(optional) or optional


def _is(hint: Any, kind: type) -> bool:  # noqa: ANN401
    return isinstance(_base(hint), type) and issubclass(_base(hint), kind)


def _decoder(hint: Any) -> Callable[[Any], object] | None:  # noqa: ANN401
    base: Any = _base(hint)
    if _is(hint, tuple):
        return lambda text: tuple(json.loads(text))
    if _is(hint, BaseModel):
        return lambda text: base.model_validate_json(text, extra="ignore")
    return base if _is(hint, StrEnum) or base is bool else None


def _encoded(value: object) -> object:
    if isinstance(value, tuple):
        return json.dumps(value)
    if isinstance(value, BaseModel):
        return value.model_dump_json(by_alias=True, exclude_none=True)
    return value.value if isinstance(value, StrEnum) else value
