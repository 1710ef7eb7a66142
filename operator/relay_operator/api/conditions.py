"""Every condition and reason that a status can show, and their types."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from relay_operator.api.meta import ECHO_CHARS, Model, Time
from relay_operator.api.schema import map_by


class ConditionType(StrEnum):
    """The condition types of an object; `relay_operator.api.reasons` says when each is present."""

    READY = "Ready"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    CREATE_OUTCOME_UNKNOWN = "CreateOutcomeUnknown"
    PAUSED = "Paused"
    BUDGET_EXCEEDED = "BudgetExceeded"
    ENV_OUTDATED = "EnvOutdated"
    FUNDS_LOW = "FundsLow"
    WEBHOOK_READY = "WebhookReady"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    LATE_CREATE = "LateCreate"
    LEFTOVER_UNRECORDED = "LeftoverUnrecorded"
    OUTPUT_MAY_NOT_FIT = "OutputMayNotFit"


class Reason(StrEnum):
    """Why a condition is as it is; `relay_operator.api.reasons` says when each appears and who can resolve it."""

    # In progress
    CREATING = "Creating"
    WAITING_FOR_ACCOUNT = "WaitingForAccount"
    WAITING_FOR_BUDGET = "WaitingForBudget"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    PRICE_UNKNOWN = "PriceUnknown"
    WAITING_FOR_RETRY = "WaitingForRetry"
    DEPLOYING = "Deploying"
    STARTING = "Starting"
    STOPPING = "Stopping"
    RESTARTING = "Restarting"
    SCALING = "Scaling"
    UPDATING = "Updating"
    RECREATING = "Recreating"
    REPLACING = "Replacing"
    BACK_OFF = "BackOff"
    ROTATING = "Rotating"
    DELETING = "Deleting"
    SEARCHING = "Searching"
    ADOPTING = "Adopting"

    # As asked
    RUNNING = "Running"
    STOPPED = "Stopped"
    MAX_RUNTIME_REACHED = "MaxRuntimeReached"
    OUTSIDE_SCHEDULE = "OutsideSchedule"
    PAUSED = "Paused"
    PLAN_ONLY = "PlanOnly"
    AVAILABLE = "Available"
    REMOVED = "Removed"
    SUBSCRIBED = "Subscribed"

    # What the cloud says
    POD_NODE_BUSY = "PodNodeBusy"
    POD_NODE_OFFLINE = "PodNodeOffline"
    POD_STOPPING = "PodStopping"
    POD_NODE_NO_INFINIBAND = "PodNodeNoInfiniband"
    INTERRUPTED = "Interrupted"
    OFFLINE = "Offline"
    DEGRADED = "Degraded"
    FAILED = "Failed"
    GREEN_FAILED = "GreenFailed"
    BALANCE_EXHAUSTED = "BalanceExhausted"
    TERMINATED_EXTERNALLY = "TerminatedExternally"
    CONFLICT = "Conflict"
    RATE_LIMITED = "RateLimited"
    CLOUD_UNAVAILABLE = "CloudUnavailable"
    NOT_SERVED = "NotServed"

    # What a person must resolve
    CREATE_OUTCOME_UNKNOWN = "CreateOutcomeUnknown"
    ADOPTION_REFUSED = "AdoptionRefused"
    ALREADY_EXISTS = "AlreadyExists"
    LAST_OWNER = "LastOwner"
    LANE_INTENT_REQUIRED = "LaneIntentRequired"
    REPLICAS_OUT_OF_BOUNDS = "ReplicasOutOfBounds"
    EXPIRED = "Expired"
    IDENTITY_MISMATCH = "IdentityMismatch"
    CRD_OUTDATED = "CrdOutdated"
    LATE_CREATE = "LateCreate"
    LEFTOVER_UNRECORDED = "LeftoverUnrecorded"
    WRITE_REFUSED = "WriteRefused"
    IMMUTABLE_FIELD_CHANGED = "ImmutableFieldChanged"
    SPEC_INVALID = "SpecInvalid"
    UNREADABLE = "Unreadable"
    OBJECT_TOO_LARGE = "ObjectTooLarge"
    KIND_DISABLED = "KindDisabled"
    ENV_MISSING = "EnvMissing"
    ENV_CHANGED = "EnvChanged"
    REFERENCE_NOT_FOUND = "ReferenceNotFound"
    REFERENCE_NOT_READY = "ReferenceNotReady"
    REFERENCE_DELETING = "ReferenceDeleting"
    REFERENCE_OTHER_ACCOUNT = "ReferenceOtherAccount"
    CONNECTION_REFUSED = "ConnectionRefused"
    SECRET_TAKEN = "SecretTaken"  # noqa: S105 - a reason, not a secret

    # Batches
    UPLOADING = "Uploading"
    SUBMITTING = "Submitting"
    CANCELLING = "Cancelling"
    RETRYING = "Retrying"
    PUBLISHING = "Publishing"
    COMPLETED = "Completed"
    SUSPENDED = "Suspended"
    INPUT_MISSING = "InputMissing"
    INPUT_UNAVAILABLE = "InputUnavailable"
    INPUT_INVALID = "InputInvalid"
    INPUT_CHANGED = "InputChanged"
    CREDENTIALS_INVALID = "CredentialsInvalid"
    OUTPUT_EXISTS = "OutputExists"
    OUTPUT_MAY_NOT_FIT = "OutputMayNotFit"
    OUTPUT_TOO_LARGE = "OutputTooLarge"
    OUTPUT_UNAVAILABLE = "OutputUnavailable"
    RESULTS_LOST = "ResultsLost"
    BATCH_REFUSED = "BatchRefused"
    TOO_MANY_FAILURES = "TooManyFailures"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    BUDGET_EXCEEDED = "BudgetExceeded"

    # Accounts
    ACCOUNT_MISSING = "AccountMissing"
    ACCOUNT_REFUSED = "AccountRefused"
    ACCOUNT_UNAUTHORIZED = "AccountUnauthorized"
    ACCOUNT_FORBIDDEN = "AccountForbidden"
    ACCOUNT_SUSPENDED = "AccountSuspended"
    ACCOUNT_NOT_ALLOWED = "AccountNotAllowed"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, not a secret
    IN_USE = "InUse"
    RUNWAY_SHORT = "RunwayShort"
    WEBHOOK_REFUSED = "WebhookRefused"
    DELIVERIES_MISSING = "DeliveriesMissing"

    # Schedules
    SCHEDULED = "Scheduled"
    SCHEDULE_INVALID = "ScheduleInvalid"
    TIME_ZONE_UNKNOWN = "TimeZoneUnknown"
    TEMPLATE_REFUSED = "TemplateRefused"


class Condition(Model):
    """One fact about the object, as a Kubernetes condition."""

    type: str = Field(min_length=1, max_length=64, description="What the condition is about.")
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: str = Field(
        min_length=1, max_length=64, pattern="^[A-Z][A-Za-z0-9]*$", description="Why, in one word for programs."
    )
    message: str = Field(default="", max_length=4096, description="Why, in a sentence for people.")
    last_transition_time: Time = Field(description="When `status` last changed.")
    observed_generation: int = Field(default=0, ge=0, description="The generation of the spec it was made from.")


class ObjectStatus(Model):
    """What the status of every kind shows."""

    reconcile_at: str | None = Field(
        None,
        max_length=ECHO_CHARS,
        description="The annotation gpurelay.dev/reconcile-at that was acted on; its digest if it is longer.",
    )
    observed_generation: int = Field(-1, ge=-1, description="Generation of the spec that this status is about.")
    conditions: list[Condition] = Field(
        default_factory=list,
        max_length=16,
        json_schema_extra=map_by("type"),
        description="Ready always; others if they have something to say.",
    )
