"""What a page reads, in one transaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Table, select

from relay_localcloud.cloud import Cloud
from relay_localcloud.console.requested import Requested
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True)
class Part:
    """A part of a list, with the addresses of the newest rows and of older ones; None if there is no other part."""

    rows: Sequence[Any]
    newest: str | None
    older: str | None


@dataclass(frozen=True)
class Reading:
    """The open transaction, the cloud and the request."""

    tx: Tx
    cloud: Cloud
    requested: Requested

    @property
    def organization_id(self) -> str:
        """The selected organization, else the first one; ApiError 404 if an imported state has none."""
        if self.requested.organization_id is not None:
            return self.requested.organization_id
        query = select(tables.organizations.c.id).order_by(tables.FIRST_COME).limit(1)
        first = self.tx.connection.execute(query).scalar()
        if first is None:
            raise ApiError(404, "The cloud has no organization yet: create one with POST /_localcloud/orgs.")
        return str(first)

    def newest(
        self, source: Table, count: int, *conditions: ColumnElement[bool], before: int | None = None
    ) -> list[RowMapping]:
        """The newest rows of the selected organization, or of all; with `before`, those below that sequence number."""
        query = select(source).where(*conditions).order_by(source.c.sequence.desc()).limit(count)
        if self.requested.organization_id is not None:
            query = query.where(source.c.organization_id == self.requested.organization_id)
        if before is not None:
            query = query.where(source.c.sequence < before)
        return list(self.tx.connection.execute(query).mappings())

    def page(
        self, source: Table, size: int, *conditions: ColumnElement[bool], place: str = "before", **kept: str | None
    ) -> Part:
        """The newest rows below the parameter `place` of the request, as a `part`."""
        found = self.newest(source, size + 1, *conditions, before=self.requested.number(place))
        return self.part(found, size, lambda row: row["sequence"], place, **kept)

    def part(
        self, found: Sequence[Any], size: int, number: Callable[[Any], int], place: str = "before", **kept: str | None
    ) -> Part:
        """The first `size` rows of `found`, which has one more if there are others.

        `number` returns a row's number. `place` is the parameter with the number at which a page begins: `before`,
        or `<key of the section>-before`. The addresses keep the parameters in `kept`.
        """
        to, path = self.requested.to, self.requested.path
        anchor = f"#{place.partition('-')[0]}" if "-" in place else ""
        newest = None if self.requested.number(place) is None else to(path, **kept) + anchor
        older = None if len(found) <= size else to(path, **kept, **{place: number(found[size - 1])}) + anchor
        return Part(found[:size], newest, older)
