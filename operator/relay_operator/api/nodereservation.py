"""NodeReservation: GPUs of a provider's node, reserved for some organizations until a time or until further notice."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from relay_operator.api.definition import AGE, ID, READY, REASON, Column, definition_of
from relay_operator.api.meta import Resource, Time
from relay_operator.api.references import LocalRef
from relay_operator.api.schema import as_set, atomic, never_changed, rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, ManagedSpec, PartStatus

SHOWN_WORKLOADS = 64
LONGEST_ID = 253
MOST_UNITS = 256
MOST_ORGANIZATIONS = 256
_SAME_NODE = never_changed("nodeRef.name", ", since the units are of one node: create another object")
_IN_ORDER = (
    "!has(self.startsAt) || !has(self.endsAt) || self.startsAt < self.endsAt",
    "endsAt has to be later than startsAt",
)
_Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[!-~]+$")]
"""The id of a unit or an organization."""
_CloudId: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
_Note: TypeAlias = Annotated[str, Field(min_length=1, max_length=1000, pattern=r"^[!-~]([ -~]*[!-~])?$")]


class NodeReservationSpec(ManagedSpec):
    """Which units are reserved, for whom, and when."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, _SAME_NODE, _IN_ORDER)

    node_ref: LocalRef = Field(
        description="The ProviderNode of this namespace whose units they are. Cannot be changed later."
    )
    unit_ids: list[_Id] = Field(
        min_length=1,
        max_length=MOST_UNITS,
        json_schema_extra=as_set(),
        description="GPU units of the node, as its status.gpus has them.",
    )
    allowed_org_ids: list[_Id] = Field(
        alias="allowedOrganizationIds",
        max_length=MOST_ORGANIZATIONS,
        json_schema_extra=as_set(),
        description="Organizations that may use them; the cloud adds its own operations.",
    )
    managing_org_ids: list[_Id] | None = Field(
        None,
        alias="managingOrganizationIds",
        max_length=MOST_ORGANIZATIONS,
        json_schema_extra=as_set(),
        description="Organizations that may release, reclaim and end spot workloads on the owner's behalf.",
    )
    starts_at: Time | None = Field(None, description="When it begins, to the second. Absent: at once.")
    ends_at: Time | None = Field(None, description="When it ends, to the second. Absent: open-ended.")
    contract_ref: _Note | None = Field(None, description="The contract behind it.")
    reason: _Note | None = Field(None, description="Why, for people.")
    lend_to_spot: bool | None = Field(
        None,
        description="While it lasts: true releases the units to spot workloads of anybody; false reclaims them, which "
        "ends those workloads. Absent: left as it is.",
    )


class NodeReservationStatus(PartStatus):
    """What the cloud says about one reservation."""

    starts_at: Time | None = Field(None, description="When it begins.")
    ends_at: Time | None = Field(None, description="When it ends; absent: open-ended.")
    unit_count: int | None = Field(None, ge=0, description="How many units it has.")
    spot_workload_ids: list[_CloudId] | None = Field(
        None,
        max_length=SHOWN_WORKLOADS,
        json_schema_extra=atomic(),
        description=f"Spot workloads that hold units of it, which a reclaim ends; at most {SHOWN_WORKLOADS}.",
    )
    spot_workloads: int | None = Field(None, ge=0, description="How many of these there are.")


class NodeReservation(Resource[NodeReservationSpec, NodeReservationStatus]):
    """One reservation."""

    kind: Literal["NodeReservation"] = "NodeReservation"


DEFINITION = definition_of(
    NodeReservation,
    "nres",
    summary="GPUs of a provider's node that only some organizations may use.",
    columns=(
        Column("Node", ".spec.nodeRef.name"),
        Column("State", ".status.state"),
        Column("Units", ".status.unitCount", "integer"),
        Column("Spot", ".status.spotWorkloads", "integer"),
        Column("Ends", ".status.endsAt"),
        READY,
        AGE,
        REASON,
        Column("Contract", ".spec.contractRef", priority=1),
        ID,
    ),
)
