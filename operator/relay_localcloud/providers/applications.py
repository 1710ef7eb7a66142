"""Organizations that provide machines: how they apply, and how the platform decides (section 4, "Providers").

An organization has one application, the latest; how it is decided, and its consequences, are assumed.
"""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ForeignKeyConstraint

from relay_localcloud.capacity import nodes
from relay_localcloud.capacity.nodes import NODES, Node
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.errors import ApiError, not_found
from relay_localcloud.http.principal import OrganizationId, OrganizationWriter, ProviderReader
from relay_localcloud.http.routing import Router
from relay_localcloud.identity import organizations
from relay_localcloud.identity.notices import tell_owners
from relay_localcloud.kernel.instants import optional_timestamp
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Tx
from relay_wire.provider import ProviderApplication, ProviderStanding

router = Router("Providers")


@dataclass(frozen=True, slots=True)
class Application:
    """An organization's application."""

    organization_id: str
    note: str
    status: str  # pending, approved, rejected
    applied_at: int
    decided_at: int | None


APPLICATIONS: Final = Rows(
    Application,
    "provider_applications",
    ForeignKeyConstraint(["organization_id"], ["organizations.id"]),
    key=("organization_id",),
)


@router.post("/v1/orgs/{orgId}/provider/apply", status_code=204, summary="Apply to become a provider")
def apply_as_provider(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[ProviderApplication], tx: Tx
) -> None:
    """While an application is pending the later note replaces the earlier one; 409 for a provider."""
    if is_provider(tx, organization_id):
        raise ApiError(409, "This organization is a provider already.")
    made = APPLICATIONS.find(tx, organization_id=organization_id)
    if made is None:
        APPLICATIONS.insert(tx, organization_id=organization_id, note=body.note, status="pending", applied_at=tx.now)
    else:
        applied_at = made.applied_at if made.status == "pending" else tx.now
        APPLICATIONS.changed(tx, made, note=body.note, status="pending", applied_at=applied_at, decided_at=None)


@router.get("/v1/orgs/{orgId}/provider/status", response_model=ProviderStanding, summary="How the application stands")
def provider_status(_: ProviderReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """`applicationStatus` is pending, approved or rejected; null if the organization never applied."""
    made = APPLICATIONS.find(tx, organization_id=organization_id)
    return {
        "isProvider": is_provider(tx, organization_id),
        "applicationStatus": made.status if made else None,
        "appliedAt": optional_timestamp(made.applied_at if made else None),
        "decidedAt": optional_timestamp(made.decided_at if made else None),
    }


def decide(tx: Tx, organization_id: str, *, admit: bool) -> None:
    """Make an organization a provider, or revoke that; this decides its application, and its owners are notified."""
    was = is_provider(tx, organization_id)
    made = APPLICATIONS.find(tx, organization_id=organization_id)
    verdict = "approved" if admit else "rejected"
    is_news = made is not None and made.status != verdict
    if made is not None and is_news:
        APPLICATIONS.changed(tx, made, status=verdict, decided_at=tx.now)
    if was != admit:
        organizations.change(tx, organization_id, {"provider": admit})
    if was != admit or is_news:
        _tell(tx, organization_id, was=was, admit=admit)


def is_provider(tx: Tx, organization_id: str) -> bool:
    """Whether an organization may enrol nodes; ApiError 404 if it does not exist."""
    return bool(organizations.organization(tx, organization_id)["provider"])


def require_provider(tx: Tx, organization_id: str) -> None:
    """Refuse with 403 what only providers may do."""
    if not is_provider(tx, organization_id):
        path = f"POST /v1/orgs/{organization_id}/provider/apply"
        raise ApiError(403, f"This organization is not a provider: {path} asks to become one.")


def owned_node(tx: Tx, organization_id: str, node_id: str) -> Node:
    """A node of an organization, which may have been removed; ApiError 404 for any other."""
    node = NODES.find(tx, id=node_id)
    if node is None or organization_id not in nodes.owners(tx, node):
        raise not_found("node", node_id)
    return node


def _tell(tx: Tx, organization_id: str, *, was: bool, admit: bool) -> None:
    name = organizations.name_of(tx, organization_id)
    if admit:
        subject = f"{name} is a provider"
        body = f"POST /v1/orgs/{organization_id}/provider/tokens makes a provisioning token, which enrols nodes."
    elif was:
        subject = f"{name} is no longer a provider"
        body = "Its provisioning tokens enrol nothing any more; its nodes stay, and it may apply again."
    else:
        subject = f"{name} did not become a provider"
        body = "Its application was rejected; it may apply again."
    tell_owners(tx, organization_id, subject, body)
