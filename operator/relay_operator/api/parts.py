"""What the specs of several kinds share."""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from relay_operator.api.cron import CronTimes, TimeZoneName
from relay_operator.api.meta import Model
from relay_operator.api.references import ObjectName, ValueSource
from relay_operator.api.schema import atomic, exactly_one, rules

DAY = 86_400

ModelId: TypeAlias = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^\S+$")]
Port: TypeAlias = Annotated[int, Field(ge=1, le=65535)]
"""A TCP port. The bounds are assumed: section 2 gives none."""
Image: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^\S+$")]


class EnvVar(Model):
    """One environment variable of the container."""

    model_config = rules(exactly_one("value", "valueFrom"))

    name: str = Field(min_length=1, max_length=253, pattern=r"^[^=\s]+$", description="Name of the variable.")
    value: str | None = Field(None, max_length=32_768, repr=False, description="The value, in plain text.")
    value_from: ValueSource | None = Field(
        None, description="Where the value is read from, when the resource is created."
    )


class EnvFromRef(Model):
    """A whole Secret or ConfigMap of the object's own namespace."""

    name: ObjectName = Field(description="Its name.")


class EnvFromSource(Model):
    """All keys of a Secret or ConfigMap as environment variables; later sources and `env` win."""

    model_config = rules(exactly_one("secretRef", "configMapRef"))

    prefix: str | None = Field(
        None, min_length=1, max_length=64, pattern=r"^[^=\s]+$", description="Put before each key."
    )
    secret_ref: EnvFromRef | None = Field(None, description="A Secret.")
    config_map_ref: EnvFromRef | None = Field(None, description="A ConfigMap.")
    optional: bool = Field(False, description="Whether it may be missing; it is then left out.")


class Gpu(Model):
    """Which GPUs, and how many; all of them on one node."""

    model_config = rules(
        ("!(has(self.modelId) && has(self.modelIds))", "set modelId or modelIds (tried in order), not both")
    )

    model_id: ModelId | None = Field(None, description="GPU model, as the cloud's catalog names it.")
    model_ids: list[ModelId] | None = Field(
        None,
        min_length=1,
        max_length=16,
        json_schema_extra=atomic(),
        description="GPU models, tried in this order while the cloud has no room for the one before.",
    )
    # The cloud states no bound, except for pods; the largest machines have 16.
    count: int = Field(1, ge=1, le=16, description="GPUs, claimed on one node.")

    @property
    def candidates(self) -> tuple[str, ...]:
        """The GPU models to try, in order; empty if the cloud chooses."""
        return (self.model_id,) if self.model_id is not None else tuple(self.model_ids or ())


class PodGpu(Gpu):
    """Which GPUs a pod has, and how many."""

    count: int = Field(1, ge=1, le=8, description="GPUs, claimed on one node.")


class ReplicaGpu(Gpu):
    """Which GPUs each replica has, and how many."""

    count: int = Field(1, ge=1, le=16, description="GPUs of each replica, claimed on one node.")


class DeletionPolicy(StrEnum):
    """What happens in the cloud when the object is deleted."""

    DELETE = "Delete"
    STOP = "Stop"
    ORPHAN = "Orphan"


class PowerState(StrEnum):
    """Whether it should run."""

    RUNNING = "Running"
    STOPPED = "Stopped"


class UpdateType(StrEnum):
    """What to do when a field changes that the cloud cannot change."""

    NEVER = "Never"
    RECREATE = "Recreate"
    BLUE_GREEN = "BlueGreen"


class UpdateStrategy(Model):
    """What to do when a field changes that the cloud cannot change in place."""

    type: Literal[UpdateType.NEVER, UpdateType.RECREATE] = Field(
        UpdateType.NEVER,
        description="Never: report it and change nothing. Recreate: delete the resource, its volume included, and "
        "make another.",
    )


class ClusterUpdateStrategy(UpdateStrategy):
    """The same of what can be replaced without a gap."""

    type: UpdateType = Field(  # type: ignore[assignment]  # of the other kinds' types, and one more
        UpdateType.NEVER,
        description="Never: report it and change nothing. Recreate: delete the cluster, its disks included, and make "
        "another. BlueGreen: make another beside it, and once that is Ready let it take its place.",
    )
    drain_seconds: int = Field(
        60,
        ge=0,
        le=DAY,
        description="How long the old cluster lives on once the new one has its place: for connections that go on.",
    )


class RunSchedule(Model):
    """When it runs: from each start until the next stop."""

    start: CronTimes = Field(
        description="When it starts, as cron writes it: minute, hour, day of the month, month and day of the week (0 "
        "to 6 from Sunday, or names). It is not created before the first start."
    )
    stop: CronTimes = Field(description="When it is stopped, in the same syntax. If both coincide, it is stopped.")
    time_zone: TimeZoneName | None = Field(
        None, description="The time zone of both, as the IANA list names it. Absent: UTC."
    )


class Lifetime(Model):
    """When and how long it may run, and how long it is kept."""

    schedule: RunSchedule | None = Field(
        None,
        description="When it runs; stopped otherwise. A stop gives its GPUs back, so a start may have to wait for "
        "room. powerState Stopped wins. Absent: always.",
    )

    max_runtime_seconds: int | None = Field(
        None, ge=60, le=366 * DAY, description="Stopped after running for this long without a break; absent: never."
    )
    ttl_seconds_after_stopped: int | None = Field(
        None,
        ge=0,
        le=366 * DAY,
        description="This object and its resource are deleted this long after it stopped as asked. Absent: never.",
    )


MOST_CENTS = 2**53
"""More than any price, and the largest integer that every JSON reader keeps exact."""


class Budget(Model):
    """What it may cost."""

    max_price_per_hour_cents: int = Field(
        ge=0,
        le=MOST_CENTS,
        description="It is not created, started or scaled to cost more than this an hour, by the catalog's prices. "
        "What runs already is left alone.",
    )


class OnTerminated(StrEnum):
    """What to do when it is gone and the operator did not end it."""

    STALL = "Stall"
    RECREATE = "Recreate"


class OnInterrupted(StrEnum):
    """What to do when its node stops reporting."""

    WAIT = "Wait"
    RECREATE = "Recreate"


class OnFailed(StrEnum):
    """What to do when the cloud reports a failure."""

    STALL = "Stall"
    RESTART = "Restart"
    RECREATE = "Recreate"


class Recovery(Model):
    """What to do when something other than the operator ends it; recreating it loses the volume."""

    model_config = rules(
        (
            "!has(self.afterSeconds) || (has(self.onInterrupted) && self.onInterrupted == 'Recreate')",
            "afterSeconds is the wait before an interrupted resource is recreated: set onInterrupted: Recreate too",
        )
    )

    on_terminated: OnTerminated = Field(
        OnTerminated.STALL, description="When it is gone and the operator did not end it."
    )
    on_interrupted: OnInterrupted = Field(
        OnInterrupted.WAIT, description="When its node stopped reporting. The cloud keeps a pod for 7 days."
    )
    after_seconds: int = Field(
        900, ge=0, le=7 * DAY, description="How long an interruption may last before onInterrupted: Recreate acts."
    )
    on_failed: OnFailed = Field(OnFailed.STALL, description="When the cloud says that it failed.")
