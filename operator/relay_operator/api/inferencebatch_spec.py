"""The spec of a batch: where its records are, where the answers go, and when to stop."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field, JsonValue, WithJsonSchema

from relay_operator.api.meta import Model
from relay_operator.api.parts import DAY
from relay_operator.api.references import AccountRef, ConfigMapKeyRef, ObjectName, SecretKeyRef
from relay_operator.api.schema import OPEN_OBJECT, as_set, atomic, exactly_one, field_rules, rules
from relay_operator.api.workload import SAME_ACCOUNT
from relay_operator.records import check, results

MAX_ATTEMPTS: Final = 10
NANO_PLACES: Final = 9
"""Decimal places of a dollar in nano-USD."""
MAX_INLINE_RECORDS: Final = 1000
"""More records belong in a ConfigMap or a bucket: an object holds 1.5 MB at most."""
TRANSIENT_CODES: Final = tuple(map(str, sorted(results.RetryableFailures().statuses))) + tuple(
    sorted(results.RetryableFailures().codes)
)
"""Failures of a record that another attempt may avoid: HTTP statuses of the model, and codes of the cloud."""

_EXACTLY_ONE_INPUT: Final = (
    "[has(self.inline), has(self.configMapRef), has(self.secretRef), has(self.url), has(self.fileId)]"
    ".filter(given, given).size() == 1"
)
_EXECUTOR_URL: Final = (
    "self.matches('^https://[^\\\\s]+$') || self.matches('^http://(localhost|127[.]0[.]0[.]1)(:[0-9]+)?(/[^\\\\s]*)?$')"
)

OpenObject: TypeAlias = Annotated[dict[str, JsonValue], WithJsonSchema(OPEN_OBJECT)]
"""Any JSON object, kept as it is."""
KNOWN_SCHEME: Final = (
    "self.matches('^(s3|gs|az|https?|file)://')",
    "write s3://, gs://, az://, https:// or, below a folder that the administrator allows, file://",
)
ObjectUrl: TypeAlias = Annotated[str, Field(min_length=1, max_length=2048, json_schema_extra=field_rules(KNOWN_SCHEME))]


class CredentialsRef(Model):
    """A Secret of the object's own namespace with the keys that this kind of store needs."""

    name: ObjectName = Field(description="Name of the Secret.")


class InlineRecord(Model):
    """One request of the batch."""

    custom_id: str = Field(
        min_length=1, max_length=512, description="Its name, unique within the batch; the answer carries it."
    )
    body: OpenObject = Field(
        description="What would be sent to the endpoint online; model may be left out.", repr=False
    )


class BatchInput(Model):
    """Where the records come from; exactly one source."""

    model_config = rules(
        (_EXACTLY_ONE_INPUT, "set exactly one of inline, configMapRef, secretRef, url and fileId"),
        ("!has(self.credentialsSecretRef) || has(self.url)", "credentialsSecretRef belongs to url"),
    )

    inline: list[InlineRecord] | None = Field(
        None,
        min_length=1,
        max_length=MAX_INLINE_RECORDS,
        json_schema_extra=atomic(),
        repr=False,
        description="The records themselves; for a few of them.",
    )
    config_map_ref: ConfigMapKeyRef | None = Field(
        None, description="A key of a ConfigMap that holds the records as JSONL, under data or binaryData."
    )
    secret_ref: SecretKeyRef | None = Field(None, description="A key of a Secret that holds the records as JSONL.")
    url: ObjectUrl | None = Field(
        None, description="An object that holds the records as JSONL: s3://, gs://, az://, https:// or file://."
    )
    credentials_secret_ref: CredentialsRef | None = Field(
        None, description="The Secret that opens url. Absent: it is read without signing."
    )
    file_id: str | None = Field(
        None,
        min_length=1,
        max_length=253,
        pattern=r"^\S+$",
        description="A file that is in the cloud already. It is never deleted.",
    )


class OnExisting(StrEnum):
    """What to do if the output already exists and does not belong to this batch."""

    FAIL = "Fail"
    REPLACE = "Replace"


class OutputConfigMapRef(Model):
    """A ConfigMap of the object's own namespace."""

    name: ObjectName = Field(
        description="Name of the ConfigMap. Keys: output.jsonl and errors.jsonl. It stays when the batch is deleted."
    )


class BatchOutput(Model):
    """Where the answers go; exactly one place."""

    model_config = rules(
        exactly_one("url", "configMapRef"),
        ("!has(self.credentialsSecretRef) || has(self.url)", "credentialsSecretRef belongs to url"),
        (
            "!has(self.url) || !self.url.contains('?')",
            "an output url names a folder or an object, without a query",
        ),
    )

    url: ObjectUrl | None = Field(
        None,
        description="A folder, in which output.jsonl and errors.jsonl are written, and result.json, which says how "
        "the batch ended; or, if it ends in .jsonl, the object for the answers, with the errors beside it in one "
        "that ends in .errors.jsonl, and how it ended in one that ends in .result.json.",
    )
    credentials_secret_ref: CredentialsRef | None = Field(None, description="The Secret that opens url.")
    config_map_ref: OutputConfigMapRef | None = Field(
        None, description="A ConfigMap; it holds 1 MiB at most, so for small batches."
    )
    on_existing: OnExisting = Field(
        OnExisting.FAIL,
        description="What to do if the output exists already and is not this batch's; of a ConfigMap, whatever "
        "is in it. Fail: before anything is paid. Replace: overwrite it.",
    )


class ToolType(StrEnum):
    """Which protocol the executor speaks."""

    HTTP = "Http"
    MCP = "Mcp"


class BatchToolConfig(Model):
    """Part of every record: where the cloud sends the model's tool calls (section 2, "Tool config")."""

    url: str = Field(
        min_length=1,
        max_length=2048,
        json_schema_extra=field_rules(
            (
                _EXECUTOR_URL,
                "the cloud calls tool executors over https:// only (a local cloud may be told to call its own machine)",
            )
        ),
        description="The executor; the cloud refuses private addresses.",
    )
    type: ToolType = Field(ToolType.HTTP, description="Http, or Mcp: an MCP server over Streamable HTTP.")
    authorization_secret_ref: SecretKeyRef | None = Field(
        None, description="The value of the Authorization header of every call to the executor."
    )
    context: OpenObject | None = Field(None, description="Forwarded with every call, as it is.")
    max_rounds: int = Field(
        8, ge=0, le=16, description="Tool rounds of one record; it can cost one model invocation more. 0 takes 8."
    )
    timeout_ms: int = Field(
        30_000, ge=0, le=120_000, description="Time for one call to the executor, in milliseconds. 0 takes 30000."
    )


_FINAL_CODES: Final = [str(status) for status in sorted(results.FINAL_STATUSES)]
_NOT_FINAL: Final = (
    f"self.all(code, !(code in {_FINAL_CODES}))",
    f"{', '.join(_FINAL_CODES[:-1])} and {_FINAL_CODES[-1]} come again however often the same record is sent",
)


class RecordRetry(Model):
    """Which records are sent again, and how often; a record that succeeded is never sent again."""

    max_attempts: int = Field(
        3, ge=1, le=MAX_ATTEMPTS, description="How many times a record is sent at most, the first time included."
    )
    codes: list[Annotated[str, Field(min_length=1, max_length=64, pattern=r"^\S+$")]] | None = Field(
        None,
        min_length=1,
        max_length=64,
        json_schema_extra=as_set() | field_rules(_NOT_FINAL),
        description="Failures after which a record is sent again: the model's HTTP status, as in 429, or a code of "
        f"the cloud. Absent: {', '.join(TRANSIENT_CODES)}. Records without any answer are always sent again.",
    )
    backoff_seconds: int = Field(
        10,
        ge=0,
        le=3600,
        description="How long records that failed wait before they are sent again; twice as long before each further "
        "attempt. 0: not at all. Records without any answer do not wait.",
    )
    max_backoff_seconds: int = Field(360, ge=1, le=DAY, description="The longest such wait.")


class FailurePolicy(Model):
    """How many failed records make the whole batch Failed; its output is published all the same."""

    model_config = rules(
        ("has(self.maxFailedRecords) || has(self.maxFailedPercent)", "set maxFailedRecords, maxFailedPercent or both")
    )

    max_failed_records: int | None = Field(
        None, ge=0, le=100_000_000, description="More failed records than this make it Failed."
    )
    max_failed_percent: int | None = Field(
        None, ge=0, le=100, description="A larger share of failed records than this, in percent, makes it Failed."
    )


class BatchBudget(Model):
    """What the batch may cost, in one of two spellings."""

    model_config = rules(exactly_one("maxCost", "maxCostNanoUsd"))

    max_cost: str | None = Field(
        None,
        max_length=16,
        pattern=r"^[0-9]{1,6}([.][0-9]{1,9})?$",
        json_schema_extra=field_rules(("self.matches('[1-9]')", "maxCost must be above zero")),
        description="When the cost reaches this, the batch is cancelled and the answers so far are published. In "
        'dollars, as a string: "0.50" is fifty cents. Records under way at that moment still cost.',
    )
    max_cost_nano_usd: int | None = Field(
        None,
        ge=1,
        le=10**15,
        description="The same in nano-USD, as `status.usage.costNanoUsd`: 1000000000 is one dollar.",
    )

    @property
    def limit_nano_usd(self) -> int | None:
        """The most that the batch may cost, in nano-USD."""
        if self.max_cost is None:
            return self.max_cost_nano_usd
        whole, _, fraction = self.max_cost.partition(".")
        return int(whole + fraction.ljust(NANO_PLACES, "0"))


class BatchDeletionPolicy(StrEnum):
    """What happens to an unfinished batch when the object is deleted."""

    PUBLISH_PARTIAL = "PublishPartial"
    DISCARD = "Discard"
    ORPHAN = "Orphan"


MetadataValue: TypeAlias = Annotated[str, Field(max_length=512)]
CROSS_FIELD: Final = (
    f"!has(self.toolConfig) || self.endpoint == '{check.CHAT}'",
    f"toolConfig works with the endpoint {check.CHAT} alone",
)


class BatchSpec(Model):
    """All settings of a batch: the spec of an InferenceBatch, and of a schedule's template."""

    model_config = rules(CROSS_FIELD)

    account_ref: AccountRef | None = Field(
        None,
        description="The account to use. Absent: the CloudAccount named default of this namespace, else the "
        "ClusterCloudAccount named default if it admits this namespace.",
    )
    model: str = Field(min_length=1, max_length=253, pattern=r"^\S+$", description="The model that every record calls.")
    endpoint: str = Field(
        max_length=64,
        json_schema_extra=field_rules(
            (
                "self in ['/v1/chat/completions', '/v1/messages']",
                "endpoint is /v1/chat/completions or /v1/messages",
            )
        ),
        description="The API that every record calls: /v1/chat/completions or /v1/messages.",
    )
    input: BatchInput = Field(description="Where the records come from.")
    output: BatchOutput = Field(description="Where the answers go.")
    tool_config: BatchToolConfig | None = Field(
        None, description="A tool executor for every record; for /v1/chat/completions alone."
    )
    metadata: dict[Annotated[str, Field(max_length=64)], MetadataValue] | None = Field(
        None,
        min_length=1,
        max_length=14,
        json_schema_extra=field_rules(
            (
                "self.all(key, !key.startsWith('gpurelay.dev/'))",
                "keys that begin with gpurelay.dev/ are the operator's own",
            )
        ),
        description="Put on every batch in the cloud, as it is, beside gpurelay.dev/object (namespace/name) and "
        "gpurelay.dev/part.",
    )
    retry_policy: RecordRetry | None = Field(None, description="Which records are sent again, and how often.")
    failure_policy: FailurePolicy | None = Field(
        None, description="How many failed records make it Failed. Absent: it is Complete however many failed."
    )
    budget: BatchBudget | None = Field(None, description="The most that it may cost; can be changed.")
    suspend: bool = Field(
        False,
        description="Holds it back: nothing is sent, and what runs is cancelled with its results kept. Set to false, "
        "the records without an answer are sent. Can be changed.",
    )
    active_deadline_seconds: int | None = Field(
        None,
        ge=1,
        le=366 * DAY,
        description="How long it may take from status.startTime; then it is cancelled, the answers so far are "
        "published, and it is Failed.",
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=366 * DAY,
        description="This object, not its output, is deleted this long after it finished. Absent: never. Can be "
        "changed.",
    )
    deletion_policy: BatchDeletionPolicy = Field(
        BatchDeletionPolicy.PUBLISH_PARTIAL,
        description="What happens when it is deleted before it finished. PublishPartial: cancelled, and the answers "
        "so far are published first. Discard: cancelled, without output. Orphan: the cloud continues, and keeps the "
        "files. Can be changed.",
    )


ONCE_SENT: Final = "what was sent cannot be changed: delete this object and create another"


def _fixed(field: str) -> tuple[str, str]:
    rule = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || self.{field} == oldSelf.{field})"
    return rule, f"{field} cannot be changed, since {ONCE_SENT}"


def _no_placeholder(url: str) -> tuple[str, str]:
    message = "a placeholder such as {date} belongs in the template of an InferenceBatchSchedule"
    return f"!has(self.{url}) || !self.{url}.contains('{{')", message


class InferenceBatchSpec(BatchSpec):
    """The desired batch."""

    model_config = rules(
        CROSS_FIELD,
        *map(_no_placeholder, ("input.url", "output.url")),
        SAME_ACCOUNT,
        *(_fixed(field) for field in ("model", "endpoint", "input", "toolConfig", "metadata")),
        *(_fixed(field) for field in ("retryPolicy", "failurePolicy", "activeDeadlineSeconds")),
    )
