"""ProviderNode: a machine that the organization provides, and its desired state."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from relay_operator.api.definition import AGE, READY, REASON, Column, definition_of
from relay_operator.api.meta import Model, Resource
from relay_operator.api.parts import DeletionPolicy
from relay_operator.api.schema import map_by, never_changed, rules
from relay_operator.api.workload import SAME_ACCOUNT, ManagedSpec, ManagedStatus
from relay_wire.base import RESOURCE_ID

SHOWN_GPUS = 64
_SAME_NODE = never_changed("nodeId", ", since it says which node this is: delete this object and create another")
_CONFIRMED = (
    "self.status != 'removed' || has(self.confirmRemoval) && self.confirmRemoval == self.nodeId",
    "removing a node ends all that runs on it, for good: repeat nodeId in confirmRemoval",
)
_LEFT_AS_IT_IS = (
    "!has(self.deletionPolicy) || self.deletionPolicy == 'Orphan'",
    "deleting the object leaves the node as it is: set status: removed to remove it, and deletionPolicy to Orphan",
)
_NEVER_MADE = (
    "!has(self.updateStrategy)",
    "a node cannot be made again: leave updateStrategy out",
)


class Wanted(StrEnum):
    """The statuses that a provider can set, by the cloud's names."""

    ONLINE = "online"
    DRAINING = "draining"
    MAINTENANCE = "maintenance"
    REMOVED = "removed"


class ProviderNodeSpec(ManagedSpec):
    """The node and its desired state."""

    model_config = rules(SAME_ACCOUNT, _SAME_NODE, _CONFIRMED, _LEFT_AS_IT_IS, _NEVER_MADE)

    node_id: str = Field(
        min_length=1,
        max_length=253,
        pattern=f"^{RESOURCE_ID.pattern}$",
        description="The cloud's identifier of the node. Cannot be changed later.",
    )
    status: Wanted = Field(
        description="Its desired status. online: take workloads. draining, maintenance: take no more; running "
        "workloads continue. removed: leave the cloud for good, which ends all that runs there."
    )
    confirm_removal: str | None = Field(
        None, max_length=253, description="`nodeId` repeated; without it `status: removed` is refused."
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.ORPHAN,
        description="What happens in the cloud when this object is deleted: Orphan, which leaves the node as it is, "
        "and nothing else.",
    )


class NodeGpu(Model):
    """One GPU of a node."""

    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier: what a reservation names.")
    gpu_model_id: str | None = Field(None, max_length=128, description="The GPU model.")


class ProviderNodeStatus(ManagedStatus):
    """What the cloud says about one node."""

    gpus: list[NodeGpu] | None = Field(
        None,
        max_length=SHOWN_GPUS,
        json_schema_extra=map_by("id"),
        description=f"Its GPUs; at most {SHOWN_GPUS}.",
    )
    gpu_count: int | None = Field(None, ge=0, description="How many GPUs it has.")
    workloads: int | None = Field(None, ge=0, description="Pods, VMs and replicas that hold GPUs of it.")
    earnings_cents: int | None = Field(
        None,
        ge=0,
        description="Its earnings, in cents, if the account's key may read it; two polls behind at most.",
    )
    location: str | None = Field(None, max_length=128, description="Where it is.")
    region: str | None = Field(None, max_length=128, description="The region of that place.")
    node_pool: str | None = Field(None, max_length=63, description="The pool that it joined.")


class ProviderNode(Resource[ProviderNodeSpec, ProviderNodeStatus]):
    """One node."""

    kind: Literal["ProviderNode"] = "ProviderNode"


DEFINITION = definition_of(
    ProviderNode,
    "pnode",
    summary="A machine that the organization brought in as a provider, and what it is to do.",
    columns=(
        Column("State", ".status.state"),
        Column("Asked", ".spec.status"),
        Column("GPUs", ".status.gpuCount", "integer"),
        Column("Workloads", ".status.workloads", "integer"),
        Column("Earned-Cents", ".status.earningsCents", "integer"),
        READY,
        AGE,
        REASON,
        Column("Pool", ".status.nodePool", priority=1),
        Column("Location", ".status.location", priority=1),
        Column("Node", ".spec.nodeId", priority=1),
    ),
)
