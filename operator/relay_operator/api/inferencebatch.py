"""InferenceBatch: records in, answers out, through files and batches of the inference API (section 2, "Batch job")."""

from typing import Final, Literal

from pydantic import Field

from relay_operator.api.conditions import ObjectStatus, Reason
from relay_operator.api.definition import AGE, Column, Definition
from relay_operator.api.inferencebatch_spec import ONCE_SENT, InferenceBatchSpec
from relay_operator.api.meta import INTENT_TOKEN, MOST_IN_A_ROW, Identity, Model, Resource, Time
from relay_operator.api.references import AccountRef
from relay_operator.api.schema import atomic, map_by
from relay_operator.records import problems

MAX_PARTS: Final = 128
"""The most batches in the cloud that one object can have over all its rounds."""
MOST_RECORDS: Final = 2**53
"""The largest count of records of one batch, so that the sum over all parts fits the API server's integers."""
_MOST_ROUNDS: Final = 9_999
"""The largest number that the tag of a batch in the cloud names."""
SHOWN_PROBLEMS: Final = problems.SHOWN
SHOWN_REASONS: Final = 5


MOVABLE: Final = (
    Reason.OUTPUT_TOO_LARGE,
    Reason.OUTPUT_EXISTS,
    Reason.OUTPUT_UNAVAILABLE,
    Reason.CREDENTIALS_INVALID,
)
"""Reasons of Ready while nothing is written to `spec.output`, and nothing can be: it may then name another place."""


class RequestCounts(Model):
    """Counts of records; each record counts once, however many attempts it took."""

    total: int = Field(0, ge=0, description="All records of the input.")
    completed: int = Field(0, ge=0, description="Those with an answer.")
    failed: int = Field(0, ge=0, description="Those with an error and no further attempt under way.")


class Usage(Model):
    """Tokens and money so far, over all attempts."""

    input_tokens: int = Field(0, ge=0, description="Tokens read by the model.")
    output_tokens: int = Field(0, ge=0, description="Tokens written by the model.")
    cost_nano_usd: int = Field(0, ge=0, description="Price paid, in billionths of a dollar.")


class InputStatus(Model):
    """The input as it was read and checked."""

    digest: str = Field(max_length=128, description="SHA-256 over the hex digests of its files, in order.")
    records: int = Field(ge=0, le=MOST_RECORDS, description="Records in it.")


class PartStatus(Model):
    """One batch in the cloud: some of the records, in one round."""

    round: int = Field(
        ge=1, le=_MOST_ROUNDS, description="1 at first; later ones have the records that are sent again."
    )
    part: int = Field(ge=1, le=MAX_PARTS, description="Which part of that round, from 1; large inputs are split.")
    records: int = Field(ge=0, le=MOST_RECORDS, description="Records in it.")
    digest: str | None = Field(None, max_length=128, description="SHA-256 of its file.")
    size: int | None = Field(None, ge=0, description="Bytes of its file.")
    input_file_id: str | None = Field(None, max_length=253, description="Its file in the cloud.")
    sent_at: Time | None = Field(
        None, description="Written before the batch is created; without batchId its outcome is not known yet."
    )
    batch_id: str | None = Field(None, max_length=253, description="The batch in the cloud.")
    state: str | None = Field(None, max_length=64, description="The cloud's word for its state.")
    completed: int = Field(0, ge=0, le=MOST_RECORDS, description="Records answered.")
    failed: int = Field(0, ge=0, le=MOST_RECORDS, description="Records failed.")
    usage: Usage | None = Field(None, description="Tokens and money.")
    output_file_id: str | None = Field(None, max_length=253, description="The cloud's file with the answers.")
    error_file_id: str | None = Field(None, max_length=253, description="The cloud's file with the errors.")


class Problem(Model):
    """A problem with the input or with a record."""

    line: int | None = Field(None, ge=1, description="Line of the input, from 1.")
    code: str = Field(max_length=64, description="The problem, in one word for programs.")
    message: str = Field(max_length=512, description="The problem, in a sentence.")


class FailureReason(Model):
    """Why some records failed."""

    code: str = Field(
        max_length=64, description="The code of the cloud or the model, else status_ with the model's HTTP status."
    )
    count: int = Field(ge=1, description="How many records failed for it.")


class OutputStatus(Model):
    """What was published, or is being published."""

    begun_at: Time | None = Field(
        None, description="Written before the first write to the output, which may be this batch's own from then on."
    )
    answers: str | None = Field(None, max_length=2560, description="Where the answers are.")
    answers_version: str | None = Field(None, max_length=253, description="The store's marker of exactly this content.")
    errors: str | None = Field(None, max_length=2560, description="Where the errors are.")
    errors_version: str | None = Field(None, max_length=253, description="The store's marker of exactly this content.")
    lines: int | None = Field(None, ge=0, description="Lines in both.")


class Ending(Model):
    """Why the batch ends; decided once, then carried out."""

    reason: str = Field(max_length=64, pattern="^[A-Z][A-Za-z0-9]*$", description="In one word for programs.")
    message: str = Field(max_length=1024, description="In a sentence.")


class InferenceBatchStatus(ObjectStatus):
    """The batch's progress, its cost, and where its answers are."""

    id: str | None = Field(None, max_length=253, description="The batch in the cloud that was created last.")
    cloud_name: str | None = Field(None, max_length=63, description="How its files in the cloud begin.")
    identity: Identity | None = Field(
        None, description="The object that its batches were made for: a copy of this status has no effect."
    )
    create_token: str | None = Field(
        None, max_length=64, pattern=INTENT_TOKEN, description="Token of the intent whose end this status records."
    )
    account: AccountRef | None = Field(None, description="The account that it is sent with.")
    state: str | None = Field(None, max_length=64, description="The cloud's word for its state.")
    status_reason: str | None = Field(None, max_length=1024, description="The cloud's own explanation.")
    request_counts: RequestCounts | None = Field(None, description="Records.")
    progress_percent: int | None = Field(
        None, ge=0, le=100, description="Share of the records that are answered, or failed for good."
    )
    input_file_id: str | None = Field(None, max_length=253, description="The cloud's file with the records.")
    batch_id: str | None = Field(None, max_length=253, description="The batch in the cloud that was created last.")
    usage: Usage | None = Field(None, description="Tokens and money so far.")
    cost: str | None = Field(None, max_length=64, description="usage.costNanoUsd for people.")
    start_time: Time | None = Field(None, description="When it was begun, or begun again after suspend.")
    completion_time: Time | None = Field(None, description="When it was finished, whether Complete or Failed.")
    input: InputStatus | None = Field(None, description="The input, once it was read.")
    round: int | None = Field(None, ge=1, le=_MOST_ROUNDS, description="The round under way, or the last.")
    attempt: int | None = Field(None, ge=1, le=_MOST_ROUNDS, description="The attempt under way, or the last.")
    retried: int | None = Field(
        None, ge=0, le=MOST_RECORDS, description="Failures that were sent again, in all rounds."
    )
    retry_time: Time | None = Field(
        None, description="When the records that failed are sent again, while that is waited for."
    )
    exhausted: bool | None = Field(None, description="True if no record is left that may be sent again.")
    only_unanswered: bool | None = Field(
        None, description="True if the round sends only what has no answer, since the last attempt was made."
    )
    suspended: bool | None = Field(None, description="True if suspend ended the last round.")
    parts: list[PartStatus] | None = Field(
        None,
        max_length=MAX_PARTS,
        json_schema_extra=map_by("round", "part"),
        description="Its batches in the cloud.",
    )
    problems: list[Problem] | None = Field(
        None, max_length=SHOWN_PROBLEMS, json_schema_extra=atomic(), description="The first things that are wrong."
    )
    failure_reasons: list[FailureReason] | None = Field(
        None,
        max_length=SHOWN_REASONS,
        json_schema_extra=atomic(),
        description="Why records failed, the most frequent reasons first: in the last round that was looked into, and "
        "once the answers are published, of those that failed for good.",
    )
    output: OutputStatus | None = Field(None, description="What was published.")
    unpublished_since: Time | None = Field(
        None, description="Since when its deletion waits for an output that cannot be written."
    )
    ending: Ending | None = Field(None, description="Why it ends without being Complete.")
    cleared: bool | None = Field(None, description="True if nothing is left to be done in the cloud.")
    failures: int | None = Field(
        None, ge=0, le=MOST_IN_A_ROW, description="Attempts of the present step that failed in a row."
    )
    next_attempt_time: Time | None = Field(None, description="When the next attempt is made, while it waits for one.")


class InferenceBatch(Resource[InferenceBatchSpec, InferenceBatchStatus]):
    """One batch of inference requests."""

    kind: Literal["InferenceBatch"] = "InferenceBatch"


_NOTHING_WRITTEN: Final = (
    "!has(oldSelf.status.completionTime)"
    " && (!has(oldSelf.status.output) || !has(oldSelf.status.output.begunAt))"
    " && has(oldSelf.status.conditions)"
    f" && oldSelf.status.conditions.exists(c, c.type == 'Ready' && c.reason in {list(map(str, MOVABLE))})"
)
_CHANGEABLE: Final = (
    f"while the batch is not finished, Ready says {', '.join(MOVABLE[:-1])} or {MOVABLE[-1]}, and nothing was written"
)
_OUTPUT_STAYS: Final = (
    f"self.spec.output == oldSelf.spec.output || (has(oldSelf.status) && {_NOTHING_WRITTEN})",
    f"output cannot be changed, since {ONCE_SENT}; it can only {_CHANGEABLE}",
)


DEFINITION: Final = Definition(
    kind="InferenceBatch",
    plural="inferencebatches",
    short_name="ibatch",
    spec=InferenceBatchSpec,
    rules=(_OUTPUT_STAYS,),
    status=InferenceBatchStatus,
    summary="Inference requests that are answered within a day, at a discount: records in, answers out.",
    columns=(
        Column("Model", ".spec.model"),
        Column("State", '.status.conditions[?(@.type=="Ready")].reason'),
        Column("Done%", ".status.progressPercent", "integer"),
        Column("Total", ".status.requestCounts.total", "integer"),
        Column("Failed", ".status.requestCounts.failed", "integer"),
        Column("Cost", ".status.cost"),
        Column("Complete", '.status.conditions[?(@.type=="Complete")].status'),
        AGE,
        Column("Cloud-State", ".status.state", priority=1),
        Column("Batch", ".status.batchId", priority=1),
        Column("Answers", ".status.output.answers", priority=1),
        Column("Failing", ".status.failureReasons[0].code", priority=1),
    ),
)
