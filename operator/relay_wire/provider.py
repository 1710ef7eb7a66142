"""GPU providers: applications, provisioning tokens, nodes, earnings (section 4, "Providers").

Section 2 gives the fields of requests; their bounds and all answers are assumed.
"""

from typing import Annotated, Literal

from pydantic import Field

from relay_wire.base import (
    Identifier,
    Lenient,
    ListOf,
    Page,
    Printable,
    Received,
    ResourceId,
    Sent,
    ShownOnce,
    Whole,
    Word,
)

NodeStatus = Literal["online", "offline", "maintenance", "draining", "removed"]
"""The statuses of section 3, "Provider node status"."""

Label = Annotated[str, Field(min_length=1, max_length=63), Printable]


class ProviderApplication(Sent):
    """Provider application: why the organization wants to be a provider."""

    note: Annotated[str, Field(max_length=10_000, pattern=r"\S")]


class ProviderStanding(Received):
    """Whether an organization is a provider, and the state of its application; null if it never applied."""

    is_provider: bool
    application_status: Literal["pending", "approved", "rejected"] | None
    applied_at: str | None
    decided_at: str | None


class NodeStatusUpdate(Sent):
    """Node status update: a provider sets every status but `offline`, which follows from a node's silence."""

    status: NodeStatus


class ProviderGpu(Received):
    """One GPU of a node; reservations refer to it by its id."""

    id: Identifier
    gpu_model_id: Lenient[str] = None


class ProviderNode(Received):
    """A node as its provider sees it; its id is its only name."""

    id: ResourceId
    status: Word = ""
    gpus: Lenient[list[ProviderGpu]] = None
    workloads: Lenient[Whole] = None
    location: Lenient[str] = None
    region: Lenient[str] = None
    node_pool: Lenient[str] = None
    created_at: Lenient[str] = None

    @property
    def name(self) -> str:
        """The id, which stands in for a name."""
        return self.id


class ProviderNodeStats(Received):
    """Counts of nodes by status; the total and the GPUs exclude removed nodes."""

    total: int
    online: int
    offline: int
    maintenance: int
    draining: int
    removed: int
    total_gpus: int
    claimed_gpus: int


class ProvisioningTokenStats(Received):
    """Counts of provisioning tokens: active ones, and those that no longer enrol nodes; each counts once."""

    total: int
    active: int
    used_up: int
    expired: int
    revoked: int


class ProviderStats(Received):
    """Node and token stats."""

    nodes: ProviderNodeStats
    tokens: ProvisioningTokenStats


class ProvisioningTokenCreate(Sent):
    """Provisioning token request; if `maxNodes` is absent or 0, any number of nodes may enroll."""

    name: Label | None = None
    expires_in_hours: Annotated[int, Field(ge=1, le=8760)] | None = None
    node_type: Label | None = None
    max_nodes: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    node_pool: Label = "community"


class ProvisioningToken(Received):
    """A provisioning token as lists show it."""

    id: ResourceId
    name: Lenient[str] = None
    node_type: Lenient[str] = None
    node_pool: Lenient[str] = None
    max_nodes: Lenient[Whole] = None
    used_nodes: Lenient[Whole] = None
    expires_at: Lenient[str] = None
    created_at: Lenient[str] = None


class ProvisioningTokenCreated(ProvisioningToken):
    """The answer to a create: the only one that shows the token in plain text."""

    token: ShownOnce


class NodeEarnings(Received):
    """What one node earned."""

    node_id: Identifier
    cents: Whole


class Payout(Received):
    """The payment for the calendar month from `periodStart` to `periodEnd`, which is the next month's start."""

    id: Identifier
    amount_cents: Whole
    period_start: str
    period_end: str
    paid_at: str


class ProviderEarnings(Received):
    """All earnings ever, by node, and their payouts, newest first."""

    total_cents: Lenient[Whole] = None
    items: ListOf[NodeEarnings]
    payouts: Lenient[list[Payout]] = None


ProviderNodeList = Page[ProviderNode]
ProvisioningTokenList = Page[ProvisioningToken]
