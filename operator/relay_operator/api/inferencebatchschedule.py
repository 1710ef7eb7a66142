"""InferenceBatchSchedule: creates InferenceBatches on a schedule, as a CronJob creates Jobs."""

from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_operator.api import inferencebatch
from relay_operator.api.conditions import ObjectStatus
from relay_operator.api.cron import CronTimes, TimeZoneName
from relay_operator.api.definition import AGE, READY, REASON, Column, Definition
from relay_operator.api.inferencebatch_spec import (
    CROSS_FIELD,
    KNOWN_SCHEME,
    BatchInput,
    BatchOutput,
    BatchSpec,
    OutputConfigMapRef,
)
from relay_operator.api.meta import ANNOTATION_PREFIX, Model, Resource, Time
from relay_operator.api.parts import DAY
from relay_operator.api.references import LabelKey, LabelValue
from relay_operator.api.schema import atomic, field_rules, rules

SCHEDULE_LABEL: Final = f"{ANNOTATION_PREFIX}schedule"
"""The label with the schedule's name, on each of its batches."""
SHOWN_ACTIVE: Final = 100
MAX_NAME: Final = 52
"""The longest name: a label's 63 characters without the suffix, the minutes since 1970, as with CronJob."""


class ConcurrencyPolicy(StrEnum):
    """What to do when a batch is due while an earlier one is unfinished."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class TemplateMetadata(Model):
    """The metadata of every batch besides its name."""

    labels: dict[LabelKey, LabelValue] | None = Field(None, max_length=32, description="Labels put on every batch.")
    annotations: dict[LabelKey, Annotated[str, Field(max_length=4096)]] | None = Field(
        None, max_length=32, description="Annotations put on every batch."
    )


PLACEHOLDERS: Final = ("name", "date", "year", "month", "day", "hour", "minute")
"""Words that may stand in braces in some texts of a template."""
_WORDS: Final = "|".join(PLACEHOLDERS)
_TOLD: Final = ", ".join(f"{{{word}}}" for word in PLACEHOLDERS)
_KNOWN_PLACEHOLDERS: Final = (
    f"self.matches('^([^{{}}]|[{{]({_WORDS})[}}])*$')",
    f"the placeholders of a template are {_TOLD}",
)
_REPLACED: Final = f"{_TOLD} stand for the batch's name and its time in timeZone."
TemplateUrl: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=2048, json_schema_extra=field_rules(KNOWN_SCHEME, _KNOWN_PLACEHOLDERS))
]


class TemplateInput(BatchInput):
    """Where the records come from; exactly one source."""

    url: TemplateUrl | None = Field(
        None,
        description=f"{BatchInput.model_fields['url'].description} {_REPLACED}",
    )


class TemplateConfigMapRef(OutputConfigMapRef):
    """A ConfigMap of the object's own namespace."""

    name: str = Field(
        min_length=1,
        max_length=253,
        pattern=f"^([-a-z0-9.]|[{{]({_WORDS})[}}])+$",
        description=f"{OutputConfigMapRef.model_fields['name'].description} {_REPLACED}",
    )


class TemplateOutput(BatchOutput):
    """Where the answers go; exactly one place."""

    url: TemplateUrl | None = Field(
        None,
        description=f"{BatchOutput.model_fields['url'].description} {_REPLACED}",
    )
    config_map_ref: TemplateConfigMapRef | None = Field(
        None, description=BatchOutput.model_fields["config_map_ref"].description
    )


class TemplateSpec(BatchSpec):
    """All settings of a batch, with placeholders where runs must differ."""

    model_config = rules(CROSS_FIELD)

    input: TemplateInput = Field(description="Where the records come from.")
    output: TemplateOutput = Field(description="Where the answers go.")


class BatchTemplate(Model):
    """The template of every batch."""

    metadata: TemplateMetadata | None = Field(None, description="Labels and annotations of every batch.")
    spec: TemplateSpec = Field(description="The spec of every batch; a change holds for later ones.")


class ScheduleSpec(Model):
    """When to create batches, from which template, and how many to keep, as far as the operator reads it."""

    schedule: CronTimes = Field(
        description="When, as cron writes it: minute, hour, day of the month, month and day of the week (0 to 6 from "
        "Sunday, or names), or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly.",
    )
    time_zone: TimeZoneName | None = Field(
        None, description="The time zone of the schedule, as the IANA list names it. Absent: UTC."
    )
    starting_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=366 * DAY,
        description="How late a batch may start; a time that was missed by more is skipped. Absent: no limit.",
    )
    concurrency_policy: ConcurrencyPolicy = Field(
        ConcurrencyPolicy.ALLOW,
        description="When a time comes and an earlier batch is not finished. Allow: both run. Forbid: nothing starts "
        "while it is not finished. Replace: it is deleted, which cancels it, and the next starts.",
    )
    suspend: bool = Field(False, description="Starts nothing while true; what is under way continues.")
    successful_batches_history_limit: int = Field(
        3, ge=0, le=1000, description="How many batches that are Complete are kept; older ones are deleted."
    )
    failed_batches_history_limit: int = Field(
        1, ge=0, le=1000, description="How many batches that are Failed are kept; older ones are deleted."
    )
    # Copied as written, so that fields of later releases survive: the API server checks whether it describes a batch.
    batch_template: dict[str, JsonValue] = Field(default_factory=dict)


class InferenceBatchScheduleSpec(ScheduleSpec):
    """When to create batches, from which template, and how many to keep."""

    batch_template: BatchTemplate = Field(  # type: ignore[assignment]  # as the API server checks it
        description="The batch that is made each time."
    )


class BatchReference(Model):
    """A batch of the schedule, in the schedule's namespace."""

    name: str = Field(max_length=253, description="Its name.")
    uid: str = Field(max_length=64, description="Its uid.")


class InferenceBatchScheduleStatus(ObjectStatus):
    """Which batches were started, and when the next one is due."""

    active: list[BatchReference] | None = Field(
        None,
        max_length=SHOWN_ACTIVE,
        json_schema_extra=atomic(),
        description=f"Batches that are not finished, the oldest first; at most {SHOWN_ACTIVE}.",
    )
    active_batches: int | None = Field(None, ge=0, description="How many batches are not finished.")
    last_schedule_time: Time | None = Field(None, description="The time for which a batch was started last.")
    last_successful_time: Time | None = Field(None, description="When a batch was Complete last.")
    next_schedule_time: Time | None = Field(
        None, description="The next time of the schedule; absent while nothing is to be started."
    )


class InferenceBatchSchedule(Resource[ScheduleSpec, InferenceBatchScheduleStatus]):
    """One schedule, as far as the operator reads it."""

    kind: Literal["InferenceBatchSchedule"] = "InferenceBatchSchedule"


DEFINITION: Final = Definition(
    kind="InferenceBatchSchedule",
    plural="inferencebatchschedules",
    short_name="ibsched",
    spec=InferenceBatchScheduleSpec,
    status=InferenceBatchScheduleStatus,
    summary="InferenceBatches on a schedule, as a CronJob makes Jobs.",
    rules=((f"self.metadata.name.size() <= {MAX_NAME}", f"the name has at most {MAX_NAME} characters"),),
    creates=inferencebatch.DEFINITION.plural,
    columns=(
        Column("Schedule", ".spec.schedule"),
        Column("Timezone", ".spec.timeZone"),
        Column("Suspend", ".spec.suspend", "boolean"),
        Column("Active", ".status.activeBatches", "integer"),
        Column("Last-Schedule", ".status.lastScheduleTime", "date"),
        Column("Next", ".status.nextScheduleTime"),
        READY,
        AGE,
        REASON,
        Column("Last-Success", ".status.lastSuccessfulTime", "date", priority=1),
        Column("Model", ".spec.batchTemplate.spec.model", priority=1),
    ),
)
