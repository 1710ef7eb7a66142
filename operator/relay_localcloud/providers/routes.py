"""An organization as a provider of GPUs (section 4, "Providers"): its application, its figures, what it earns."""

import hashlib
from collections import Counter

from sqlalchemy import Connection, func, select

from relay_localcloud.capacity import claims, nodes
from relay_localcloud.http.bodies import Body
from relay_localcloud.http.principal import EarningsReader, OrganizationId, OrganizationWriter, ProviderReader
from relay_localcloud.http.routing import Router
from relay_localcloud.kernel.instants import optional_timestamp, timestamp
from relay_localcloud.kernel.store import Tx
from relay_localcloud.money.accrual import MICROSECONDS
from relay_localcloud.providers import applications, earnings, provisioning
from relay_localcloud.providers.earnings import Payout
from relay_localcloud.providers.provisioning import TokenState
from relay_wire.provider import ProviderApplication, ProviderEarnings, ProviderStanding, ProviderStats

router = Router("Providers")


@router.post("/v1/orgs/{orgId}/provider/apply", status_code=204, summary="Apply to become a provider")
def apply_as_provider(
    _: OrganizationWriter, organization_id: OrganizationId, body: Body[ProviderApplication], tx: Tx
) -> None:
    """While an application is pending the later note replaces the earlier one; 409 for a provider."""
    applications.apply(tx, organization_id, body.note)


@router.get("/v1/orgs/{orgId}/provider/status", response_model=ProviderStanding, summary="How the application stands")
def provider_status(_: ProviderReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """`applicationStatus` is pending, approved or rejected; null where the organization never applied."""
    is_provider = applications.is_provider(tx, organization_id)
    made = applications.application(tx, organization_id)
    return {
        "isProvider": is_provider,
        "applicationStatus": made["status"] if made else None,
        "appliedAt": optional_timestamp(made["applied_at"] if made else None),
        "decidedAt": optional_timestamp(made["decided_at"] if made else None),
    }


@router.get("/v1/orgs/{orgId}/provider/stats", response_model=ProviderStats, summary="Node and token stats")
def provider_stats(_: ProviderReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """Counts of nodes by status, of GPUs, and of provisioning tokens by what has become of them."""
    node_stats = _node_stats(tx.connection, organization_id)
    tokens = Counter(provisioning.state_of(token, tx.now) for token in provisioning.every(tx, organization_id))
    token_stats = {
        "total": tokens.total(),
        "active": tokens[TokenState.ACTIVE],
        "usedUp": tokens[TokenState.USED_UP],
        "expired": tokens[TokenState.EXPIRED],
        "revoked": tokens[TokenState.REVOKED],
    }
    return {"nodes": node_stats, "tokens": token_stats}


@router.get("/v1/orgs/{orgId}/provider/earnings", response_model=ProviderEarnings, summary="Earnings and payouts")
def provider_earnings(_: EarningsReader, organization_id: OrganizationId, tx: Tx) -> dict[str, object]:
    """All usage of the nodes up to now, open stints included; payouts are made on the 1st at 00:10 UTC."""
    earned = earnings.of_provider(tx.connection, organization_id, tx.now // MICROSECONDS)
    return {
        "totalCents": earned.total_cents,
        "items": [{"nodeId": node_id, "cents": cents} for node_id, cents in earned.cents_by_node.items()],
        "payouts": [_payout(organization_id, payout) for payout in reversed(earned.payouts)],
    }


def _node_stats(connection: Connection, organization_id: str) -> dict[str, int]:
    rows = nodes.owned_rows(connection, organization_id)
    statuses = Counter(nodes.status_of(row) for row in rows)
    claimed = select(func.count()).select_from(claims.claims).join(nodes.nodes).where(nodes.owned_by(organization_id))
    return {
        "total": len(rows) - statuses["removed"],
        **{status: statuses[status] for status in ("online", "offline", "maintenance", "draining", "removed")},
        "totalGpus": sum(row["gpu_count"] for row in rows if row["removed_at"] is None),
        "claimedGpus": connection.execute(claimed).scalar_one(),
    }


def _payout(organization_id: str, payout: Payout) -> dict[str, object]:
    # One organization has one payout a month, so the two name it for good.
    named = hashlib.sha256(f"{organization_id}\n{payout.start}".encode()).hexdigest()[:20]
    return {
        "id": f"payout_{named}",
        "amountCents": payout.cents,
        "periodStart": timestamp(payout.start * MICROSECONDS),
        "periodEnd": timestamp(payout.end * MICROSECONDS),
        "paidAt": timestamp(payout.paid_at * MICROSECONDS),
    }
