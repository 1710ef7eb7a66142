"""What a page reads from while it is rendered, in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, RowMapping, Table, select

from relay_localcloud.cloud import Cloud
from relay_localcloud.console.markup import Html, element
from relay_localcloud.console.parts import pages
from relay_localcloud.console.requested import Requested
from relay_localcloud.kernel.store import Tx


@dataclass(frozen=True)
class Reading:
    """The open transaction, what was asked for, and the names of the newest organizations by their ids."""

    tx: Tx
    cloud: Cloud
    requested: Requested
    organizations: Mapping[str, str]

    def owner(self, organization_id: str | None) -> Html | None:
        """Whose something is, where that is in question."""
        if organization_id is None or self.requested.organization_id is not None or len(self.organizations) < 2:
            return None
        return element("small", f"in {self.organizations.get(organization_id, organization_id)}")

    def newest(
        self, source: Table, count: int, *conditions: ColumnElement[bool], before: int | None = None
    ) -> list[RowMapping]:
        """The newest rows of the organization that was chosen, or of all."""
        query = select(source).where(*conditions).order_by(source.c.sequence.desc()).limit(count)
        if self.requested.organization_id is not None:
            query = query.where(source.c.organization_id == self.requested.organization_id)
        if before is not None:
            query = query.where(source.c.sequence < before)
        return list(self.tx.connection.execute(query).mappings())

    def page(
        self,
        source: Table,
        size: int,
        *conditions: ColumnElement[bool],
        place: str = "before",
        **kept: str | None,
    ) -> tuple[list[RowMapping], Html | None]:
        """The newest rows from where the page begins, and the links to the others (`parts.pages`)."""
        found = self.newest(source, size + 1, *conditions, before=self.requested.number(place))
        further = found[size - 1]["sequence"] if len(found) > size else None
        return found[:size], pages(self.requested, place, further, **kept)
