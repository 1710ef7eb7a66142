"""GPU providers: applications, provisioning tokens, nodes, earnings (section 4, "Providers").

Section 2 gives the fields of what is sent; its bounds and all answers are assumed.
"""

from typing import Annotated, Literal

from pydantic import Field

from relay_wire.base import Identifier, Items, Lenient, ListOf, Printable, Received, ResourceId, Sent, Word

NodeStatus = Literal["online", "offline", "maintenance", "draining", "removed"]
"""Section 3, "Provider node status"."""

Label = Annotated[str, Field(min_length=1, max_length=63), Printable]


class ProviderApplication(Sent):
    """Provider application: why the organization wants to be one."""

    note: Annotated[str, Field(max_length=10_000, pattern=r"\S")]


class ProviderStanding(Received):
    """Whether an organization is a provider, and how its application stands; null where it never applied."""

    is_provider: bool
    application_status: Literal["pending", "approved", "rejected"] | None
    applied_at: str | None
    decided_at: str | None


class NodeStatusUpdate(Sent):
    """Node status update: a provider sets every status but `offline`, which follows from a node's silence."""

    status: NodeStatus


class ProviderGpu(Received):
    """One GPU of a node; its id is what a reservation names."""

    id: Identifier
    gpu_model_id: Lenient[str] = None


class ProviderNode(Received):
    """A node as its provider sees it; it has no name but its id."""

    id: ResourceId
    status: Word = ""
    gpus: Lenient[list[ProviderGpu]] = None
    workloads: Lenient[int] = None
    location: Lenient[str] = None
    region: Lenient[str] = None
    node_pool: Lenient[str] = None
    created_at: Lenient[str] = None

    @property
    def name(self) -> str:
        """What it is told apart by."""
        return self.id


class ProviderNodeStats(Received):
    """How many nodes of each status there are; the total and the GPUs leave removed ones out."""

    total: int
    online: int
    offline: int
    maintenance: int
    draining: int
    removed: int
    total_gpus: int
    claimed_gpus: int


class ProvisioningTokenStats(Received):
    """How many provisioning tokens enrol nodes, and how many do not any more; each counts once."""

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
    """Provisioning token request; no `maxNodes`, or 0, is no quota."""

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
    max_nodes: Lenient[int] = None
    used_nodes: Lenient[int] = None
    expires_at: Lenient[str] = None
    created_at: Lenient[str] = None


class ProvisioningTokenCreated(ProvisioningToken):
    """The answer to a create: the only one that shows the token in plain text."""

    token: str = Field(min_length=1, repr=False)


class NodeEarnings(Received):
    """What one node earned."""

    node_id: Identifier
    cents: int


class Payout(Received):
    """What was paid for the calendar month from `periodStart` to `periodEnd`, which is the next month's start."""

    id: Identifier
    amount_cents: int
    period_start: str
    period_end: str
    paid_at: str


class ProviderEarnings(Received):
    """All that was ever earned, by node, and the payouts of it, newest first."""

    total_cents: Lenient[int] = None
    items: ListOf[NodeEarnings]
    payouts: Lenient[list[Payout]] = None


ProviderNodeList = Items[ProviderNode]
ProvisioningTokenList = Items[ProvisioningToken]
