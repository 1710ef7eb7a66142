"""CloudAccount and ClusterCloudAccount: an organization's API key, for one namespace or for several."""

from enum import StrEnum
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from relay_operator.api.cloudaccount_status import AccountStatus
from relay_operator.api.conditions import Condition, ConditionType, Reason
from relay_operator.api.definition import AGE, READY, REASON, Column, Definition
from relay_operator.api.meta import Model, Resource
from relay_operator.api.parts import MOST_CENTS
from relay_operator.api.references import LabelKey, LabelValue, NamespaceName, SecretKeyRef
from relay_operator.api.schema import PRINTABLE, as_set, atomic, field_rules, rules
from relay_wire.orgs import Email, OrganizationName

_PLAIN_URL = (
    r"self.matches('^https?://[^\\s/?#@]+(/[^\\s?#]*)?$')",
    "write http(s)://host[:port][/path], without user name, query or fragment",
)
Url: TypeAlias = Annotated[str, Field(min_length=1, max_length=2048, json_schema_extra=field_rules(_PLAIN_URL))]
Gateway: TypeAlias = Annotated[
    str,
    Field(max_length=261, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$"),
]


class WebhookSpec(Model):
    """How the operator learns of changes."""

    enabled: bool = Field(
        True,
        description="Whether the operator subscribes to the cloud's webhooks, to learn of changes sooner; it polls in "
        "any case.",
    )


class RateLimit(Model):
    """How fast the operator may send requests with this key."""

    requests_per_second: int = Field(20, ge=1, le=1000, description="Requests per second, on average.")
    burst: int = Field(40, ge=1, le=1000, description="Requests at once, after a quiet period.")


class AutoRechargeSpec(Model):
    """Auto-recharge settings, which the operator enforces in the cloud. They charge the organization's default card."""

    enabled: bool = Field(description="Whether the card is charged when the balance runs low.")
    threshold_cents: int = Field(
        ge=0, le=100_000_000, description="The card is charged when the available balance drops below this, in cents."
    )
    amount_cents: int = Field(ge=1000, le=50_000, description="The amount that is charged each time, in cents.")


class OrganizationSpec(Model):
    """What the operator keeps set of the organization; what is absent stays as it is."""

    model_config = rules(("has(self.name) || has(self.billingEmail)", "write name, billingEmail, or both"))

    name: OrganizationName | None = Field(
        None, json_schema_extra=field_rules(PRINTABLE), description="The organization's name."
    )
    billing_email: Email | None = Field(
        None, json_schema_extra=field_rules(PRINTABLE), description="Where its bills go."
    )


class CreateRecovery(StrEnum):
    """What to do about a create whose answer was lost, if the cloud cannot tell its outcome."""

    HOLD = "Hold"
    RETRY_BY_NAME = "RetryByName"


class Orphans(StrEnum):
    """What to do with resources that carry a name of this cluster and belong to no object."""

    REPORT = "Report"
    DELETE = "Delete"


class AccountSpec(Model):
    """The fields of both kinds of account."""

    base_url: Url | None = Field(
        None,
        description="Management API; only if the operator's allow-list admits it. Absent: the operator's default.",
    )
    inference_url: Url | None = Field(
        None, description="Inference API; only if the allow-list admits it. Absent: the operator's default."
    )
    webhook: WebhookSpec | None = Field(None, description="How the operator hears of changes.")
    rate_limit: RateLimit | None = Field(None, description="How fast the operator may ask the cloud, with this key.")
    auto_recharge: AutoRechargeSpec | None = Field(
        None, description="Auto-recharge settings kept in the cloud; absent: left as they are."
    )
    organization: OrganizationSpec | None = Field(
        None,
        description="The organization's name and billing address, kept in the cloud; absent: left as they are. The key "
        "needs the scope org:write.",
    )
    create_recovery: CreateRecovery = Field(
        CreateRecovery.HOLD,
        description="What to do about a create whose answer was lost, if the cloud offers no way to find out. Hold: "
        "wait for a person. RetryByName: send the same name again, at the risk of paying twice.",
    )
    ssh_gateway: Gateway | None = Field(
        None,
        description="The cloud's SSH gateway, host:port; only for `kubectl relay ssh`, the operator never calls it.",
    )
    orphans: Orphans = Field(
        Orphans.REPORT,
        description="What becomes of resources that carry a name of this cluster and belong to no object. Report: "
        "status.orphans lists them. Delete: the operator also ends them, a day later.",
    )


class AccountBudget(Model):
    """What all objects of the account may cost together; objects over the limit wait, the oldest first."""

    min_available_cents: int | None = Field(
        None, ge=0, le=MOST_CENTS, description="Nothing is created, started or scaled up while less is available."
    )
    max_burn_per_hour_cents: int | None = Field(
        None,
        ge=0,
        le=MOST_CENTS,
        description="Nothing is created, started or scaled up that would let the organization cost more an hour.",
    )


class NamespaceBudget(Model):
    """Limits for the objects of one namespace together."""

    max_burn_per_hour_cents: int | None = Field(
        None, ge=0, le=MOST_CENTS, description="What they may cost an hour, by the catalog's prices."
    )
    max_gpus: int | None = Field(None, ge=0, le=1_000_000, description="GPUs that they may have.")


class SharedBudget(AccountBudget):
    """The budget of an account that namespaces share."""

    per_namespace: NamespaceBudget | None = Field(None, description="What each namespace may have of it.")


class CloudAccountSpec(AccountSpec):
    """The account of one namespace."""

    budget: AccountBudget | None = Field(None, description="What everything of the account may cost together.")

    api_key_secret_ref: SecretKeyRef = Field(description="The organization's API key, in a Secret of this namespace.")
    allow_adoption: bool = Field(
        True, description="Whether gpurelay.dev/adopt-id may take over resources that exist in the organization."
    )


class ClusterSecretKeyRef(SecretKeyRef):
    """One key of a Secret in a named namespace."""

    namespace: NamespaceName = Field(description="Namespace of the Secret: the operator's own.")


class LabelOperator(StrEnum):
    """How to compare a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


class LabelRequirement(Model):
    """One comparison of a label."""

    model_config = rules(
        (
            "self.operator in ['In', 'NotIn'] ? has(self.values) : !has(self.values)",
            "In and NotIn need values; Exists and DoesNotExist have none",
        )
    )

    key: LabelKey = Field(description="The label.")
    operator: LabelOperator = Field(description="How it is compared.")
    values: list[LabelValue] | None = Field(
        None, min_length=1, max_length=64, json_schema_extra=as_set(), description="What In and NotIn compare with."
    )


class LabelSelector(Model):
    """Namespaces by their labels; an empty selector selects all of them."""

    match_labels: dict[LabelKey, LabelValue] | None = Field(
        None, max_length=32, description="Labels that a namespace must have."
    )
    match_expressions: list[LabelRequirement] | None = Field(
        None, max_length=32, json_schema_extra=atomic(), description="Comparisons that must all hold."
    )


class ClusterCloudAccountSpec(AccountSpec):
    """An account that several namespaces share."""

    budget: SharedBudget | None = Field(
        None, description="What everything of the account, and what each namespace of it, may cost together."
    )

    api_key_secret_ref: ClusterSecretKeyRef = Field(
        description="The organization's API key, in a Secret of the operator's own namespace."
    )
    allowed_namespaces: LabelSelector = Field(
        description="Namespaces that may use it, by their labels; {} is all of them."
    )
    allowed_kinds: list[Annotated[str, Field(max_length=63)]] | None = Field(
        None,
        max_length=32,
        json_schema_extra=as_set(),
        description="Kinds of objects that may use it. Of an object of another kind, the operator only ends what it "
        "has already. A key or a member that one namespace makes has access to what all of them have.",
    )
    allowed_scopes: list[Annotated[str, Field(max_length=64)]] | None = Field(
        None,
        max_length=32,
        json_schema_extra=as_set(),
        description="Scopes that an ApiKey made with it may have, if allowedKinds lists that kind. Absent: none. "
        "Such a key gives its namespace access to what all of them have.",
    )
    allow_adoption: bool = Field(
        False,
        description="Whether gpurelay.dev/adopt-id may take over resources that exist in the organization: any "
        "namespace that may use the account could take those of another.",
    )


class CloudAccount(Resource[CloudAccountSpec, AccountStatus]):
    """The account of one namespace."""

    kind: Literal["CloudAccount"] = "CloudAccount"


class ClusterCloudAccount(Resource[ClusterCloudAccountSpec, AccountStatus]):
    """An account that several namespaces share."""

    kind: Literal["ClusterCloudAccount"] = "ClusterCloudAccount"


AnyAccount: TypeAlias = CloudAccount | ClusterCloudAccount


def secret_namespace(account: AnyAccount) -> str:
    """The namespace of the account's Secrets."""
    if isinstance(account, ClusterCloudAccount):
        return account.spec.api_key_secret_ref.namespace
    return account.metadata.namespace


_URLS_PASSED: Final = frozenset(
    {
        Reason.AVAILABLE,
        Reason.SECRET_MISSING,
        Reason.ACCOUNT_UNAUTHORIZED,
        Reason.ACCOUNT_FORBIDDEN,
        Reason.CLOUD_UNAVAILABLE,
    }
)
"""Reasons of an account's `Ready` that come only after the operator found its URLs in the allow-list."""


def readiness(account: AnyAccount) -> Condition | None:
    """The condition Ready about the present spec; None if the status has none."""
    now = account.metadata.generation
    told = (one for one in account.status.conditions if one.type == ConditionType.READY)
    return next((ready for ready in told if ready.observed_generation == now), None)


def urls_passed(account: AnyAccount) -> bool:
    """Whether the operator found the URLs of the present spec in its allow-list, according to the status."""
    ready = readiness(account)
    return ready is not None and ready.reason in _URLS_PASSED


_COLUMNS = (
    Column("Organization", ".status.organizationName"),
    READY,
    Column("Available", ".status.availableCents", "integer"),
    Column("Burn/h", ".status.burnPerHourCents", "integer"),
    Column("Runway-h", ".status.runwayHours", "integer"),
    AGE,
    REASON,
    Column("URL", ".spec.baseUrl", priority=1),
    Column("Webhook", ".status.webhook.id", priority=1),
)

CLOUD_ACCOUNT = Definition(
    kind="CloudAccount",
    plural="cloudaccounts",
    short_name="cacct",
    spec=CloudAccountSpec,
    status=AccountStatus,
    summary="An organization's API key, for the workloads of one namespace.",
    columns=_COLUMNS,
)
CLUSTER_CLOUD_ACCOUNT = Definition(
    kind="ClusterCloudAccount",
    plural="clustercloudaccounts",
    short_name="ccacct",
    spec=ClusterCloudAccountSpec,
    status=AccountStatus,
    namespaced=False,
    summary="An organization's API key that several namespaces share.",
    columns=_COLUMNS,
)
