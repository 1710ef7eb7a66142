"""What a page reads from while it is rendered, in one transaction."""

from collections.abc import Mapping
from dataclasses import dataclass

from relay_localcloud.cloud import Cloud
from relay_localcloud.console.markup import Html, element
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
