"""What every condition type and every reason means. The reference pages are made from these two tables."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from relay_operator.api.conditions import ConditionType, Reason


class Polarity(StrEnum):
    """Which status of a condition is the good one."""

    POSITIVE = "True is good"
    NEGATIVE = "True is bad"
    NEUTRAL = "neither is bad"


class Resolver(StrEnum):
    """Who can make a reason go away."""

    NOBODY = "nothing to do"
    OPERATOR = "the operator, by itself"
    AUTHOR = "whoever wrote the object"
    ACCOUNT_OWNER = "whoever owns the account"
    ADMINISTRATOR = "whoever runs the operator"
    CLOUD = "the cloud"


@dataclass(frozen=True, slots=True)
class TypeDoc:
    """One condition type."""

    polarity: Polarity
    present: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ReasonDoc:
    """One reason."""

    appears: str
    resolver: Resolver


TYPES: Final[dict[ConditionType, TypeDoc]] = {
    ConditionType.READY: TypeDoc(
        Polarity.POSITIVE, "always", "The cloud is as the spec asks; for an account, the key works."
    ),
    ConditionType.RECONCILING: TypeDoc(
        Polarity.NEUTRAL, "only while True", "The operator or the cloud is on the way to what the spec asks."
    ),
    ConditionType.STALLED: TypeDoc(
        Polarity.NEGATIVE, "only while True", "No further progress without somebody's doing; the message says whose."
    ),
    ConditionType.CAPACITY_AVAILABLE: TypeDoc(
        Polarity.POSITIVE, "only while False", "The cloud had no room at the last attempt; it is tried again."
    ),
    ConditionType.CREATE_OUTCOME_UNKNOWN: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "A create was sent and its answer was lost; nothing is sent again until it is known what became of it.",
    ),
    ConditionType.PAUSED: TypeDoc(
        Polarity.NEUTRAL,
        "only while True",
        "The annotation gpurelay.dev/paused holds every change back, deletion included.",
    ),
    ConditionType.BUDGET_EXCEEDED: TypeDoc(
        Polarity.NEGATIVE, "only while True", "The cloud refuses to start anything: no funds, or the limit is reached."
    ),
    ConditionType.ENV_OUTDATED: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "A Secret or ConfigMap behind the environment changed since the resource was created.",
    ),
    ConditionType.FUNDS_LOW: TypeDoc(
        Polarity.NEGATIVE, "only while True; accounts", "The balance lasts for less than a day at the current burn."
    ),
    ConditionType.WEBHOOK_READY: TypeDoc(
        Polarity.POSITIVE,
        "accounts, where webhooks are wanted and the operator has a public URL",
        "The cloud tells of changes by itself; otherwise they are seen by polling, later.",
    ),
}

REASONS: Final[dict[Reason, ReasonDoc]] = {
    Reason.CREATING: ReasonDoc("Nothing exists in the cloud so far; the create is being sent.", Resolver.OPERATOR),
    Reason.WAITING_FOR_ACCOUNT: ReasonDoc("The account exists and was not checked so far.", Resolver.OPERATOR),
    Reason.WAITING_FOR_BUDGET: ReasonDoc(
        "The cloud refused for lack of funds (INSUFFICIENT_BALANCE) or because the monthly limit is reached "
        "(SPEND_LIMIT_REACHED); tried again at `status.nextAttemptTime`.",
        Resolver.ACCOUNT_OWNER,
    ),
    Reason.WAITING_FOR_CAPACITY: ReasonDoc(
        "The cloud has no room for this now; tried again at `status.nextAttemptTime`, with the next of `gpu.modelIds`.",
        Resolver.CLOUD,
    ),
    Reason.WAITING_FOR_RETRY: ReasonDoc(
        "The last attempt failed; the next is at `status.nextAttemptTime`.", Resolver.OPERATOR
    ),
    Reason.DEPLOYING: ReasonDoc("The cloud is placing or starting it; the message has its word.", Resolver.CLOUD),
    Reason.STARTING: ReasonDoc("It was stopped and is being started again.", Resolver.CLOUD),
    Reason.STOPPING: ReasonDoc("It is being stopped.", Resolver.CLOUD),
    Reason.RESTARTING: ReasonDoc("The annotation gpurelay.dev/restarted-at asked for a restart.", Resolver.CLOUD),
    Reason.SCALING: ReasonDoc("The number of replicas is being changed.", Resolver.CLOUD),
    Reason.UPDATING: ReasonDoc("A change is being made in place.", Resolver.OPERATOR),
    Reason.RECREATING: ReasonDoc(
        "It is deleted and made anew, as `updateStrategy` or `recovery` asks; its volume goes with it.",
        Resolver.OPERATOR,
    ),
    Reason.DELETING: ReasonDoc("The object is deleted; the cloud has not confirmed the end so far.", Resolver.CLOUD),
    Reason.SEARCHING: ReasonDoc(
        "The operator is finding out whether something exists before it acts.", Resolver.OPERATOR
    ),
    Reason.ADOPTING: ReasonDoc("An existing resource is being taken over.", Resolver.OPERATOR),
    Reason.RUNNING: ReasonDoc("It runs, as asked.", Resolver.NOBODY),
    Reason.STOPPED: ReasonDoc("It is stopped, as asked.", Resolver.NOBODY),
    Reason.MAX_RUNTIME_REACHED: ReasonDoc(
        "It ran for `lifetime.maxRuntimeSeconds` and was stopped; a new gpurelay.dev/restarted-at starts it again.",
        Resolver.AUTHOR,
    ),
    Reason.PAUSED: ReasonDoc("The annotation gpurelay.dev/paused is `true`; remove it to go on.", Resolver.AUTHOR),
    Reason.AVAILABLE: ReasonDoc("The account's key works.", Resolver.NOBODY),
    Reason.SUBSCRIBED: ReasonDoc("The webhook subscription exists and is enabled.", Resolver.NOBODY),
    Reason.POD_NODE_BUSY: ReasonDoc(
        "The GPUs of the node that has the volume are taken (POD_NODE_BUSY); tried again.", Resolver.CLOUD
    ),
    Reason.POD_NODE_OFFLINE: ReasonDoc(
        "The node that has the volume is offline (POD_NODE_OFFLINE); tried again.", Resolver.CLOUD
    ),
    Reason.POD_STOPPING: ReasonDoc(
        "The previous run is still being torn down (POD_STOPPING); tried again.", Resolver.CLOUD
    ),
    Reason.POD_NODE_NO_INFINIBAND: ReasonDoc(
        "The node's agent is too old for an organization with InfiniBand (POD_NODE_NO_INFINIBAND): ask the cloud, or "
        "recreate the pod elsewhere, without its volume.",
        Resolver.CLOUD,
    ),
    Reason.INTERRUPTED: ReasonDoc(
        "The node stopped reporting; not billed, and deleted by the cloud at `status.deletionDeadline` "
        "unless the node returns.",
        Resolver.CLOUD,
    ),
    Reason.DEGRADED: ReasonDoc("Some replicas are not healthy; the message says which and why.", Resolver.CLOUD),
    Reason.FAILED: ReasonDoc(
        "The cloud says that it failed; `status.statusReason` has its words. `recovery.onFailed` can restart or "
        "recreate it.",
        Resolver.AUTHOR,
    ),
    Reason.BALANCE_EXHAUSTED: ReasonDoc(
        "Stopped because the balance ran out; deleted by the cloud at `status.deletionDeadline` unless funded. "
        "Started again when funds are back.",
        Resolver.ACCOUNT_OWNER,
    ),
    Reason.TERMINATED_EXTERNALLY: ReasonDoc(
        "It is gone from the cloud, and the operator did not end it. `recovery.onTerminated: Recreate` makes another.",
        Resolver.AUTHOR,
    ),
    Reason.CONFLICT: ReasonDoc(
        "The cloud refuses this in the present state, or something else has the name; tried again.", Resolver.OPERATOR
    ),
    Reason.RATE_LIMITED: ReasonDoc("The cloud asks for fewer requests; tried again later.", Resolver.OPERATOR),
    Reason.CLOUD_UNAVAILABLE: ReasonDoc(
        "The cloud does not answer, or not sensibly; `Ready` stays what it was last seen to be.", Resolver.CLOUD
    ),
    Reason.CREATE_OUTCOME_UNKNOWN: ReasonDoc(
        "A create was sent, its answer was lost, and the cloud offers no way to find out. Look for "
        "`status.cloudName` in the cloud's console; then set gpurelay.dev/adopt-id to its id, or, where there is "
        "none, gpurelay.dev/retry-create to the token that the message names.",
        Resolver.AUTHOR,
    ),
    Reason.ADOPTION_REFUSED: ReasonDoc(
        "The resource of gpurelay.dev/adopt-id does not exist, differs from the spec, belongs to another object, or "
        "the account does not allow adoption; the message says which.",
        Resolver.AUTHOR,
    ),
    Reason.IDENTITY_MISMATCH: ReasonDoc(
        "The resource of `status.id` does not have this object's name in the cloud: `status` was edited or copied. It "
        "is neither changed nor deleted.",
        Resolver.AUTHOR,
    ),
    Reason.IMMUTABLE_FIELD_CHANGED: ReasonDoc(
        "The cloud cannot change these fields of a living resource, and `updateStrategy` is Never: put them back, or "
        "set `updateStrategy.type: Recreate`.",
        Resolver.AUTHOR,
    ),
    Reason.SPEC_INVALID: ReasonDoc(
        "The cloud refuses the spec, or it cannot be read; the message has the cloud's words.", Resolver.AUTHOR
    ),
    Reason.ENV_MISSING: ReasonDoc(
        "A Secret or ConfigMap that the spec refers to does not exist, or lacks the key.", Resolver.AUTHOR
    ),
    Reason.CONNECTION_REFUSED: ReasonDoc(
        "The Secret or ConfigMap of `connection` cannot be written: it is another's, or the API server refuses it.",
        Resolver.AUTHOR,
    ),
    Reason.ENV_CHANGED: ReasonDoc(
        "What the environment refers to has another content than when the resource was created.", Resolver.AUTHOR
    ),
    Reason.ACCOUNT_MISSING: ReasonDoc(
        "The account that `accountRef` names does not exist, or there is no default account for this namespace.",
        Resolver.AUTHOR,
    ),
    Reason.ACCOUNT_REFUSED: ReasonDoc(
        "The account cannot be used; the account's own conditions say why.", Resolver.ACCOUNT_OWNER
    ),
    Reason.ACCOUNT_UNAUTHORIZED: ReasonDoc(
        "The cloud refuses the key: wrong, revoked or expired (401). Put a good key into the Secret.",
        Resolver.ACCOUNT_OWNER,
    ),
    Reason.ACCOUNT_FORBIDDEN: ReasonDoc(
        "The key lacks a scope, or belongs to another organization (403).", Resolver.ACCOUNT_OWNER
    ),
    Reason.ACCOUNT_NOT_ALLOWED: ReasonDoc(
        "The account's URL is not in the operator's allow-list, or the cluster-wide account does not admit this "
        "namespace.",
        Resolver.ADMINISTRATOR,
    ),
    Reason.SECRET_MISSING: ReasonDoc(
        "The Secret of `apiKeySecretRef` does not exist, or lacks the key.", Resolver.ACCOUNT_OWNER
    ),
    Reason.IN_USE: ReasonDoc(
        "The account is deleted, and objects still depend on it: delete them first.", Resolver.ACCOUNT_OWNER
    ),
    Reason.RUNWAY_SHORT: ReasonDoc("The balance lasts for less than a day.", Resolver.ACCOUNT_OWNER),
    Reason.WEBHOOK_REFUSED: ReasonDoc(
        "The cloud refuses the subscription; the message has its words. Polling takes over.", Resolver.ADMINISTRATOR
    ),
}
