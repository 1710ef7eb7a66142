"""One typed row: a dataclass whose fields are the columns of a table, declared once and read and written by field.

    @dataclass(frozen=True, slots=True)
    class Snapshot:
        sequence: int
        id: str
        status: SnapshotStatus
        ready_at: int | None = None

    SNAPSHOTS = Rows(Snapshot, "snapshots", Index("snapshots_by_status", "status"))
    SNAPSHOTS.all(tx, status=SnapshotStatus.CREATING, ready_at=None)

`sequence` counts rows and is the primary key, unless `key` names other fields; `id` is unique; a field that may be None
is nullable, and its default is the column's. Text, whole numbers and truth values are kept as they are, a StrEnum as
text, tuples, dicts, models and decimal numbers as JSON. A statement is compiled when one of its shape first runs.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, fields, replace
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from sqlalchemy import (
    BigInteger,
    Boolean,
    ClauseElement,
    Column,
    ColumnElement,
    Integer,
    Select,
    String,
    Table,
    Text,
    bindparam,
    delete,
    func,
    select,
)
from sqlalchemy import insert as insert_into
from sqlalchemy import update as change_in
from sqlalchemy.schema import SchemaItem

from relay_localcloud.kernel.instants import timestamp
from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.schema import metadata
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.tables import FIRST_COME

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_RowT = TypeVar("_RowT", bound="DataclassInstance")
_TYPES: Final = {int: BigInteger, str: String, bool: Boolean, float: String}
_PLAIN: Final = frozenset({str, int, bool, NoneType})
MOST_SHAPES: Final = 100
"""Statements about a table that are kept compiled."""


class Rows(Generic[_RowT]):
    """The rows of a table, ordered by `order`, the oldest first; `named` maps fields to columns with other names.

    A method with `equal` affects the rows whose fields have these values; None matches null.
    """

    def __init__(
        self,
        row: type[_RowT],
        name: str,
        *items: SchemaItem,
        key: Collection[str] = ("sequence",),
        order: str = "sequence",
        named: Mapping[str, str] | None = None,
        **options: Any,  # noqa: ANN401 - of the table
    ) -> None:
        self._row = row
        hints = get_type_hints(row)
        self.columns = {each.name: _column(each, hints[each.name], key, named or {}) for each in fields(row)}
        self.table = Table(name, metadata, *self.columns.values(), *items, **options)
        self._id = "id" if "id" in self.columns else next(iter(self.columns))
        self._order = self.columns.get(order, FIRST_COME)
        decoders = enumerate(_decoder(hints[field]) for field in self.columns)
        self._decoders = [(place, decode) for place, decode in decoders if decode is not None]
        self._defaults = {each.name: None if each.default is MISSING else each.default for each in fields(row)}
        self._statements: dict[object, Prepared] = {}

    def of(self, values: Iterable[Any]) -> _RowT:
        """The row with these column values, in the order of the fields."""
        decoded = list(values)
        for place, decode in self._decoders:
            if decoded[place] is not None:
                decoded[place] = decode(decoded[place])
        return self._row(*decoded)

    def insert(self, tx: Tx, **values: object) -> _RowT:
        """Insert a row; an absent field has its default, or is null."""
        kept = self._kept(self._defaults | values)
        written = self._inserts.run(tx.connection, **kept)
        return self.of((kept | {"sequence": written.lastrowid} if "sequence" in kept else kept).values())

    def insert_all(self, tx: Tx, rows: Iterable[Mapping[str, object]]) -> None:
        """Insert several rows, as `insert` does each."""
        self._inserts.run_each(tx.connection, (self._kept({**self._defaults, **row}) for row in rows))

    def put(self, tx: Tx, **values: object) -> None:
        """Insert a row, replacing the one with the same key."""
        statement = self._statement("put", lambda: insert_into(self.table).prefix_with("OR REPLACE"))
        statement.run(tx.connection, **self._kept(self._defaults | values))

    def add(self, tx: Tx, **values: object) -> bool:
        """Insert a row if none has its key; returns whether it did."""
        statement = self._statement("add", lambda: insert_into(self.table).prefix_with("OR IGNORE"))
        return statement.run(tx.connection, **self._kept(self._defaults | values)).rowcount == 1

    def change(self, tx: Tx, row_id: object, **values: object) -> None:
        """Change fields of the row with this id; the first field serves as id if there is no `id`."""
        self.change_all(tx, values, **{self._id: row_id})

    def change_all(self, tx: Tx, values: Mapping[str, object], **equal: object) -> int:
        """Change fields of rows; returns how many rows."""
        kept = self._kept(values)

        def statement() -> ClauseElement:
            written: dict[str, Any] = {name: bindparam(name) for name in kept}
            return change_in(self.table).where(*self._are(equal)).values(written)

        change = self._statement(("change", *kept, None, *_shape(equal)), statement)
        return change.run(tx.connection, **kept, **_parameters(equal)).rowcount

    def changed(self, tx: Tx, row: _RowT, **values: object) -> _RowT:
        """Change fields of a row; returns the changed row."""
        self.change(tx, getattr(row, self._id), **values)
        return replace(row, **values)

    def updated(self, tx: Tx, row: _RowT, **values: object) -> _RowT:
        """Like `changed`, but sets `updated_at` to now if a value differs."""
        same = all(getattr(row, field) == value for field, value in values.items())
        return row if same else self.changed(tx, row, updated_at=tx.now, **values)

    def remove(self, tx: Tx, **equal: object) -> int:
        """Delete rows; returns how many."""
        statement = self._statement(("remove", *_shape(equal)), lambda: delete(self.table).where(*self._are(equal)))
        return statement.run(tx.connection, **_parameters(equal)).rowcount

    def find(self, tx: Tx, **equal: object) -> _RowT | None:
        """A matching row, any of several; None if there is none."""
        statement = self._statement(("find", *_shape(equal)), lambda: self._those(*self._are(equal)).limit(1))
        found = statement.run(tx.connection, **_parameters(equal)).fetchone()
        return None if found is None else self.of(found)

    def count(self, tx: Tx, **equal: object) -> int:
        """How many rows there are."""

        def statement() -> ClauseElement:
            return select(func.count()).select_from(self.table).where(*self._are(equal))

        counted = self._statement(("count", *_shape(equal)), statement).run(tx.connection, **_parameters(equal))
        return int(counted.fetchone()[0])

    def all(self, tx: Tx, *where: ColumnElement[bool], **equal: object) -> list[_RowT]:
        """All rows, the oldest first; `where` restricts them further."""

        def statement() -> Select[Any]:
            return self._those(*where, *self._are(equal)).order_by(self._order)

        if where:
            return [self.of(row) for row in tx.connection.execute(statement(), _parameters(equal))]
        found = self._statement(("all", *_shape(equal)), statement).run(tx.connection, **_parameters(equal))
        return [self.of(row) for row in found]

    def first(self, tx: Tx, count: int, *where: ColumnElement[bool], **equal: object) -> list[_RowT]:
        """The first `count` rows for which `where` holds, the oldest first."""
        query = self._those(*where, *self._are(equal)).order_by(self._order).limit(count)
        return [self.of(row) for row in tx.connection.execute(query, _parameters(equal))]

    def page(self, tx: Tx, before: int | None, count: int, **equal: object) -> list[_RowT]:
        """A page of `count` rows, the newest first; with `before`, only those before this sequence number."""

        def statement() -> ClauseElement:
            earlier = () if before is None else (self._order < bindparam("before", type_=Integer),)
            query = self._those(*earlier, *self._are(equal)).order_by(self._order.desc())
            return query.limit(bindparam("count", type_=Integer))

        page = self._statement(("page", before is None, *_shape(equal)), statement)
        found = page.run(tx.connection, before=before, count=count, **_parameters(equal))
        return [self.of(row) for row in found]

    def after(
        self, tx: Tx, place: int, count: int, *where: ColumnElement[bool], **equal: object
    ) -> list[tuple[int, _RowT]]:
        """The first `count` rows above a place in the table's order, each with its own place, the oldest first."""
        query = self._those(self._order > place, *where, *self._are(equal)).add_columns(self._order.label("place"))
        found = tx.connection.execute(query.order_by(self._order).limit(count), _parameters(equal))
        return [(place, self.of(values)) for *values, place in found]

    def _those(self, *where: ColumnElement[bool]) -> Select[Any]:
        return select(*self.columns.values()).where(*where)

    def _are(self, equal: Mapping[str, object]) -> Iterator[ColumnElement[bool]]:
        for field, value in equal.items():
            column = self.columns[field]
            yield column.is_(None) if value is None else column == bindparam(f"of_{field}")

    def _kept(self, values: Mapping[str, object]) -> dict[str, object]:
        return {self.columns[field].name: _encoded(value) for field, value in values.items()}

    @property
    def _inserts(self) -> Prepared:
        return self._statement("insert", lambda: insert_into(self.table))

    def _statement(self, shape: object, make: Callable[[], ClauseElement]) -> Prepared:
        if shape not in self._statements:
            if len(self._statements) >= MOST_SHAPES:  # of changes there are as many as there are sets of fields
                self._statements.clear()
            self._statements[shape] = Prepared(make())
        return self._statements[shape]


def shown(row: Any, *names: str) -> dict[str, object]:  # noqa: ANN401 - whatever has fields
    """The fields of a row, by default all, as answers show them: names in camel case, instants as timestamps."""
    return {_camel(name): _answered(name, getattr(row, name)) for name in names or [each.name for each in fields(row)]}


_camel = cache(to_camel)


def _answered(name: str, value: object) -> object:
    return timestamp(value) if name.endswith("_at") and isinstance(value, int) else value


def _shape(equal: Mapping[str, object]) -> Iterator[tuple[str, bool]]:
    return ((field, value is None) for field, value in equal.items())


def _parameters(equal: Mapping[str, object]) -> dict[str, object]:
    return {f"of_{field}": _encoded(value) for field, value in equal.items() if value is not None}


def _column(field: Field[Any], hint: Any, key: Collection[str], named: Mapping[str, str]) -> Column[Any]:  # noqa: ANN401 - a type
    name = named.get(field.name, field.name)
    if name == "sequence":
        return Column(name, Integer, primary_key=True)
    default = None if field.default is MISSING else field.default
    kept = _TYPES.get(_base(hint), String if _is(hint, StrEnum) else Text)
    unique = name == "id" and "id" not in key
    nullable = NoneType in get_args(hint)
    return Column(name, kept, primary_key=field.name in key, nullable=nullable, unique=unique or None, default=default)


def _base(hint: Any) -> Any:  # noqa: ANN401 - as above, in all these places
    optional = next((each for each in get_args(hint) if NoneType in get_args(hint) and each is not NoneType), hint)
    return get_origin(optional) or optional


def _is(hint: Any, *kinds: type) -> bool:  # noqa: ANN401
    return isinstance(_base(hint), type) and issubclass(_base(hint), kinds)


def _decoder(hint: Any) -> Callable[[Any], object] | None:  # noqa: ANN401
    base: Any = _base(hint)
    if _is(hint, tuple):
        return lambda text: tuple(json.loads(text))
    if _is(hint, dict):
        return json.loads
    if _is(hint, BaseModel):
        return lambda text: base.model_validate_json(text, extra="ignore")
    return base if _is(hint, StrEnum, float) or base is bool else None


def _encoded(value: object) -> object:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, tuple | dict | float):
        return json.dumps(value)
    if isinstance(value, BaseModel):
        return value.model_dump_json(by_alias=True, exclude_none=True)
    return value.value if isinstance(value, StrEnum) else value
