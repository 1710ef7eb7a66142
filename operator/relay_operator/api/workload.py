"""What all workloads share in spec, status and columns."""

from collections.abc import Sequence
from typing import TypeVar

from pydantic import Field

from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.connection import Connection
from relay_operator.api.definition import AGE, ID, REASON, Column
from relay_operator.api.meta import ECHO_CHARS, MOST_ATTEMPTS, MOST_IN_A_ROW, Identity, Model, Time
from relay_operator.api.parts import (
    MOST_CENTS,
    Budget,
    DeletionPolicy,
    EnvFromSource,
    EnvVar,
    Lifetime,
    PowerState,
    Recovery,
    UpdateStrategy,
)
from relay_operator.api.plan import Plan
from relay_operator.api.references import AccountRef, HeldReference
from relay_operator.api.schema import atomic, map_by, never_changed

_ACCOUNT_UNCHANGED = (
    "has(self.accountRef) == has(oldSelf.accountRef) && "
    "(!has(self.accountRef) || (self.accountRef.name == oldSelf.accountRef.name && "
    "has(self.accountRef.kind) == has(oldSelf.accountRef.kind) && "
    "(!has(self.accountRef.kind) || self.accountRef.kind == oldSelf.accountRef.kind)))"
)
_USE_ANOTHER_OBJECT = (
    "accountRef cannot be changed, since the resource belongs to that account's organization: "
    "delete this object and create it with the other account"
)
SAME_ACCOUNT = (_ACCOUNT_UNCHANGED, _USE_ANOTHER_OBJECT)
"""The one change that no update strategy allows; a rule for every managed spec."""
SAME_SECRET = never_changed("secretName", ": delete this object and create it with the other name")
NEVER_STOPPED = (
    "!has(self.deletionPolicy) || self.deletionPolicy != 'Stop'",
    "nothing of this kind can be stopped: set deletionPolicy to Delete or Orphan",
)
"""A rule for the spec of a kind without a power switch."""
FIRST_COLUMNS = (Column("State", ".status.state"), Column("GPU", ".status.gpuModelId"))
"""The first columns of a workload, before its own; `LAST_COLUMNS` are the last."""
LAST_COLUMNS = (
    Column("Endpoint", ".status.endpointUrl"),
    Column("Cents/h", ".status.payingPerHourCents", "integer"),
    AGE,
    REASON,
    ID,
    Column("Image", ".spec.image", priority=1),
)

BILLED = frozenset({"running", "degraded"})
"""States in which a workload costs something now (section 3)."""
BILLED_EARLY = frozenset({"provisioning"})
"""States in which replicas that load may cost something."""
UNBILLED = frozenset({"stopped", "failed", "terminated"})
"""States in which a workload costs nothing."""
MAX_FORMER = 128
"""The most superseded resources of one object that are still in use."""


class ManagedSpec(Model):
    """The settings of every object that stands for one cloud resource."""

    account_ref: AccountRef | None = Field(
        None,
        description="The account to use; cannot be changed later. Absent: the CloudAccount named default of this "
        "namespace, else the ClusterCloudAccount named default if it admits this namespace.",
    )
    deletion_policy: DeletionPolicy = Field(
        DeletionPolicy.DELETE,
        description="What happens in the cloud when this object is deleted. Delete: it ends, with its volume if it has "
        "one. Stop: it is stopped and kept; not for kinds that cannot be stopped. Orphan: left as it is, and billed.",
    )
    update_strategy: UpdateStrategy | None = Field(
        None, description="What to do when a field changes that the cloud cannot change in place."
    )


class PricedSpec(ManagedSpec):
    """The settings of everything that is paid for by the hour."""

    budget: Budget | None = Field(
        None, description="The most that it may cost. Its account may have limits of its own."
    )


class WorkloadSpec(PricedSpec):
    """The settings of everything that runs."""

    power_state: PowerState = Field(
        PowerState.RUNNING, description="Whether it is to run. A stopped one is not billed."
    )
    lifetime: Lifetime | None = Field(None, description="How long it may run, and how long it is kept.")
    recovery: Recovery | None = Field(None, description="What to do when something ends it.")
    connection: Connection | None = Field(
        None, description="Writes the endpoint and its token into a Secret or ConfigMap of this namespace."
    )
    env: list[EnvVar] | None = Field(
        None,
        max_length=256,
        repr=False,
        json_schema_extra=map_by("name"),
        description="Environment variables of the container; they win over envFrom.",
    )
    env_from: list[EnvFromSource] | None = Field(
        None,
        max_length=32,
        json_schema_extra=atomic(),
        description="Secrets and ConfigMaps whose keys become environment variables; later ones win.",
    )


class ManagedStatus(ObjectStatus):
    """What the status of every object that stands for one cloud resource shows."""

    id: str | None = Field(None, max_length=253, description="The cloud's identifier.")
    cloud_name: str | None = Field(None, max_length=63, description="The name it has in the cloud.")
    identity: Identity | None = Field(
        None, description="The object that the resource was made for: a copy of this status has no effect."
    )
    create_token: str | None = Field(
        None, max_length=64, description="Token of the last create whose outcome is known; another one is still open."
    )
    attempt: int | None = Field(
        None,
        ge=0,
        le=MOST_ATTEMPTS,
        description="Number of creates whose outcome is known; 1 follows the largest number.",
    )
    spec_hash: str | None = Field(
        None, max_length=1024, description="Fingerprints of the fields the create sent that the cloud cannot change."
    )
    env_digest: str | None = Field(
        None, max_length=64, description="A keyed digest of what it was created with from Secrets and ConfigMaps."
    )
    account: AccountRef | None = Field(None, description="The account that it was created with.")
    references: list[HeldReference] | None = Field(
        None,
        max_length=128,
        json_schema_extra=map_by("kind", "name"),
        description="Other objects that it was given: they are not deleted before it is.",
    )
    state: str | None = Field(None, max_length=64, description="The cloud's word for its state.")
    state_since: Time | None = Field(None, description="When `state` was first seen.")
    status_reason: str | None = Field(None, max_length=1024, description="The cloud's own explanation.")
    replacing: bool | None = Field(None, description="True while it is deleted to be recreated.")
    adopted_before: str | None = Field(
        None,
        max_length=ECHO_CHARS,
        description="The annotation gpurelay.dev/adopt-id whose resource another one replaces; its digest if it is "
        "longer. It is not adopted again.",
    )
    plan: Plan | None = Field(
        None, description="What would be done, while the annotation gpurelay.dev/plan-only holds it back."
    )
    failures: int | None = Field(None, ge=0, le=MOST_IN_A_ROW, description="Attempts that failed in a row.")
    next_attempt_time: Time | None = Field(None, description="When the next attempt is made, while it waits for one.")


class Former(Model):
    """A superseded resource, which another one has replaced."""

    id: str = Field(min_length=1, max_length=253, description="The cloud's identifier.")
    name: str = Field(min_length=1, max_length=63, description="The name it has in the cloud.")
    until: Time | None = Field(None, description="When it is deleted at the latest; absent: once nothing uses it.")


class Blue(Former):
    """A workload that another takes the place of, with what brings it back if that one does not."""

    until: Time | None = Field(
        None, description="When it is ended; absent while it serves, since the one beside it is not Ready."
    )
    spec_hash: str | None = Field(None, max_length=1024, description="As `specHash` was.")
    env_digest: str | None = Field(None, max_length=64, description="As `envDigest` was.")
    references: list[HeldReference] | None = Field(
        None, max_length=128, json_schema_extra=map_by("kind", "name"), description="As `references` were."
    )
    price_per_hour_cents: int | None = Field(
        None, ge=0, description="What you pay per hour for it, in cents; absent if it is stopped, or unknown."
    )
    gpus: int | None = Field(None, ge=0, description="GPUs that it has in all; absent if it is stopped.")


class SupersedingStatus(ManagedStatus):
    """The status of a kind whose resource outlives its replacement for a while, since others still use it."""

    former: Sequence[Former] | None = Field(
        None,
        max_length=MAX_FORMER,
        json_schema_extra=map_by("id"),
        description="Former ones: each is deleted once nothing uses it, or at its `until`.",
    )


class PartStatus(ManagedStatus):
    """The status of a kind whose resource is part of another, whose id is needed to find it."""

    part_of: str | None = Field(
        None, max_length=253, description="The cloud's identifier of what it is part of, and goes with."
    )


class PricedStatus(ManagedStatus):
    """The status of everything that is paid for by the hour."""

    price_per_hour_cents: int | None = Field(
        None,
        ge=0,
        description="Price of all of it while it runs, in cents; of a cluster, the catalog's price of its replicas.",
    )
    reservation_token: str | None = Field(
        None,
        max_length=64,
        description="Token of the last reservation in a budget that is over: pricePerHourCents says what is paid.",
    )


class WorkloadStatus(PricedStatus):
    """The status of everything that runs."""

    endpoint_url: str | None = Field(None, max_length=2048, description="Where it is reached.")
    paying_per_hour_cents: int | None = Field(
        None,
        ge=0,
        le=MOST_CENTS,
        description="What you pay per hour for it now, in cents; of a cluster, the most: a replica that is still to "
        "start costs nothing. Absent while you pay nothing, as when it is stopped.",
    )
    gpu_model_id: str | None = Field(None, max_length=128, description="The GPU model it got.")
    gpu_count: int | None = Field(None, ge=0, description="GPUs it got; of a cluster, those of each replica.")
    running_since: Time | None = Field(
        None, description="Start of the present run; of a cluster, when its replicas began to start."
    )
    stopped_since: Time | None = Field(None, description="Since when it is stopped as asked, by no schedule.")
    next_schedule_time: Time | None = Field(
        None, description="When `lifetime.schedule` stops it, or lets it run, next; absent without one, and if stopped."
    )
    deletion_deadline: Time | None = Field(
        None, description="When the cloud will delete it, with its volume, unless something changes."
    )
    restarted_at: str | None = Field(
        None,
        max_length=ECHO_CHARS,
        description="The annotation gpurelay.dev/restarted-at that was acted on; its digest if it is longer.",
    )
    recoveries: int | None = Field(
        None,
        ge=0,
        le=MOST_IN_A_ROW,
        description="Restarts and recreations in a row, without a run of ten minutes between them.",
    )


class FailedGreen(Model):
    """What was made to take a resource's place, and failed."""

    asked: str = Field(max_length=64, description="Fingerprint of the spec that it was made for.")
    env_digest: str | None = Field(None, max_length=64, description="As its `envDigest` was.")
    message: str = Field(max_length=1024, description="What became of it.")


class BlueGreenStatus(WorkloadStatus, SupersedingStatus):
    """The status of a kind whose resource can be replaced by another beside it: there are two at most."""

    former: Sequence[Blue] | None = Field(
        None,
        max_length=1,
        json_schema_extra=map_by("id"),
        description="The old one, with updateStrategy BlueGreen: it serves until the one of `id` is Ready, is drained, "
        "and ended.",
    )
    failed_green: FailedGreen | None = Field(
        None, description="The last one that was to take its place and failed: none is made for the same spec."
    )


SpecT = TypeVar("SpecT", bound=ManagedSpec)
StatusT = TypeVar("StatusT", bound=ManagedStatus)
