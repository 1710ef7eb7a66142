"""ProvisioningToken: the token with which machines join the organization's nodes, kept in a Secret."""

from typing import Literal

from pydantic import Field

from relay_operator.api.definition import RECORD_COLUMNS, Column, definition_of
from relay_operator.api.meta import Resource, Time
from relay_operator.api.references import ObjectName
from relay_operator.api.schema import rules
from relay_operator.api.workload import NEVER_STOPPED, SAME_ACCOUNT, SAME_SECRET, ManagedSpec, SupersedingStatus

_MOST_HOURS = 8760
"""The specification states no bound; a year is assumed."""
_IN_TIME = (
    "!has(self.renewBeforeSeconds) || has(self.expiresInHours) && self.renewBeforeSeconds < self.expiresInHours * 3600",
    "renewBeforeSeconds must be less than the seconds of expiresInHours, which must be set",
)
_LABEL = r"^[!-~]([ -~]*[!-~])?$"


class ProvisioningTokenSpec(ManagedSpec):
    """Which machines may join with the token, how long it lives, and which Secret holds it."""

    model_config = rules(SAME_ACCOUNT, NEVER_STOPPED, SAME_SECRET, _IN_TIME)

    expires_in_hours: int | None = Field(
        None,
        ge=1,
        le=_MOST_HOURS,
        description="How long machines can join with it, from its creation. Absent: the cloud decides.",
    )
    renew_before_seconds: int | None = Field(
        None,
        ge=1,
        le=_MOST_HOURS * 3600,
        description="How long before it expires another replaces it in the Secret; the former one works until it "
        "expires, at most this long. Absent: it is not replaced.",
    )
    max_nodes: int | None = Field(
        None, ge=0, le=1_000_000, description="How many machines may join with it. Absent or 0: any number."
    )
    node_type: str | None = Field(
        None, min_length=1, max_length=63, pattern=_LABEL, description="The type of the machines that join."
    )
    node_pool: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=_LABEL,
        description="The pool that the machines join. Absent: community.",
    )
    secret_name: ObjectName = Field(
        description="The Secret of this namespace that keeps the token, as `token`. The operator makes it, and it goes "
        "with this object. Cannot be changed later."
    )


class ProvisioningTokenStatus(SupersedingStatus):
    """What the cloud says about one token."""

    expires_at: Time | None = Field(None, description="From when no machine can join with it.")
    max_nodes: int | None = Field(None, ge=0, description="How many machines may join with it; 0: any number.")
    used_nodes: int | None = Field(None, ge=0, description="How many joined with it, also those removed since.")
    node_pool: str | None = Field(None, max_length=63, description="The pool that they join.")


class ProvisioningToken(Resource[ProvisioningTokenSpec, ProvisioningTokenStatus]):
    """One token."""

    kind: Literal["ProvisioningToken"] = "ProvisioningToken"


DEFINITION = definition_of(
    ProvisioningToken,
    "ptoken",
    summary="A token with which machines join the organization's nodes, in a Secret of this namespace.",
    columns=(
        Column("Pool", ".status.nodePool"),
        Column("Used", ".status.usedNodes", "integer"),
        Column("Max", ".status.maxNodes", "integer"),
        Column("Secret", ".spec.secretName"),
        Column("Expires", ".status.expiresAt"),
        *RECORD_COLUMNS,
    ),
)
