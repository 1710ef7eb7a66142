"""The meaning of every condition type and reason. The reference pages are generated from these two tables."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from relay_operator.api.conditions import ConditionType, Reason


class Polarity(StrEnum):
    """Which status of a condition is good."""

    POSITIVE = "True is good"
    NEGATIVE = "True is bad"
    NEUTRAL = "neither is bad"


class Resolver(StrEnum):
    """Who can resolve a reason."""

    NOBODY = "nothing to do"
    OPERATOR = "the operator, by itself"
    AUTHOR = "the author of the object"
    ACCOUNT_OWNER = "the owner of the account"
    ADMINISTRATOR = "the administrator of the operator"
    CLOUD = "the cloud"


@dataclass(frozen=True, slots=True)
class TypeDoc:
    """The documentation of one condition type."""

    polarity: Polarity
    present: str
    meaning: str


@dataclass(frozen=True, slots=True)
class ReasonDoc:
    """The documentation of one reason."""

    appears: str
    resolver: Resolver


TYPES: Final[dict[ConditionType, TypeDoc]] = {
    ConditionType.READY: TypeDoc(
        Polarity.POSITIVE,
        "always",
        "The cloud is as the spec asks; for an account, the key works. What cannot be looked at keeps it, with the "
        "`observedGeneration` of the spec that it was seen for.",
    ),
    ConditionType.RECONCILING: TypeDoc(
        Polarity.NEUTRAL, "only while True", "The operator or the cloud is working towards what the spec asks."
    ),
    ConditionType.STALLED: TypeDoc(
        Polarity.NEGATIVE, "only while True", "There is no progress until somebody acts; the message says who."
    ),
    ConditionType.CAPACITY_AVAILABLE: TypeDoc(
        Polarity.POSITIVE, "only while False", "The cloud had no room at the last attempt; the operator tries again."
    ),
    ConditionType.CREATE_OUTCOME_UNKNOWN: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "A create was sent and its answer was lost; nothing is sent again until its outcome is known.",
    ),
    ConditionType.PAUSED: TypeDoc(
        Polarity.NEUTRAL,
        "only while True",
        "The annotation gpurelay.dev/paused holds back every change, deletion included. Status still tells what the "
        "cloud shows, except for batches and schedules.",
    ),
    ConditionType.BUDGET_EXCEEDED: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "It costs, or would cost, more than it may: the funds, or a limit of the cloud, the account or the object. "
        "Of a batch: `spec.budget` is used up.",
    ),
    ConditionType.ENV_OUTDATED: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "A Secret or ConfigMap behind the environment changed since the resource was created.",
    ),
    ConditionType.FUNDS_LOW: TypeDoc(
        Polarity.NEGATIVE,
        "only while True; accounts",
        "The available balance is below the cloud's floor, or lasts for less than a day at the current burn.",
    ),
    ConditionType.WEBHOOK_READY: TypeDoc(
        Polarity.POSITIVE,
        "accounts that want webhooks, if the operator has a public URL",
        "The cloud reports changes by webhook; otherwise the operator sees them by polling, later.",
    ),
    ConditionType.COMPLETE: TypeDoc(
        Polarity.POSITIVE,
        "only while True; batches",
        "Every record has its line in the published output, as an answer or as an error. It is final.",
    ),
    ConditionType.FAILED: TypeDoc(
        Polarity.NEGATIVE,
        "only while True; batches",
        "It ended without being Complete; the reason says why, and the answers that exist are published. It is final.",
    ),
    ConditionType.LATE_CREATE: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "The cloud acted on a create that the operator had given up on: the operator ends that resource, and you pay "
        "until then.",
    ),
    ConditionType.LEFTOVER_UNRECORDED: TypeDoc(
        Polarity.NEGATIVE,
        "only while True",
        "A resource that stays in the cloud without an object cannot be recorded: an object that leaves one there "
        "waits, and what an account reports about one is lost with the operator's process.",
    ),
    ConditionType.OUTPUT_MAY_NOT_FIT: TypeDoc(
        Polarity.NEGATIVE,
        "only while True; batches, until the answers are published",
        "By the size of the input, the answers are likely too large for the ConfigMap that `output` names.",
    ),
    ConditionType.SUSPENDED: TypeDoc(
        Polarity.NEUTRAL,
        "only while True; batches, schedules",
        "`spec.suspend` is true: nothing of a batch runs in the cloud, and a schedule starts nothing.",
    ),
}

_BY_RESOLVER: Final[dict[Resolver, dict[Reason, str]]] = {
    Resolver.NOBODY: {
        Reason.RUNNING: "It runs, as asked.",
        Reason.STOPPED: "It is stopped, as asked.",
        Reason.AVAILABLE: "Of an account: its key works. Of what does not run, such as an SshKey: it is in the cloud "
        "as asked. Of a GpuModel: the cloud sells it.",
        Reason.REMOVED: "It is gone from the cloud, as `status: removed` asks.",
        Reason.SUBSCRIBED: "The webhook subscription exists and is enabled.",
        Reason.COMPLETED: "Every record has its line in the published output.",
        Reason.SCHEDULED: "Batches start at the times of the schedule.",
    },
    Resolver.OPERATOR: {
        Reason.CREATING: "Nothing exists in the cloud yet: the create is being sent. Of what does not run, such as "
        "a snapshot: the cloud is making it.",
        Reason.WAITING_FOR_ACCOUNT: "The account is missing, cannot be used yet, has no finalizer of the operator "
        "yet, or is being subscribed to the cloud's webhooks: until then nothing is created. The message says which.",
        Reason.WAITING_FOR_RETRY: "The last attempt failed; the next is at `status.nextAttemptTime`.",
        Reason.UPDATING: "A change is being made in place.",
        Reason.RECREATING: "It is deleted with its volume and recreated, as `updateStrategy` or `recovery` asks.",
        Reason.REPLACING: "Another cluster takes its place, as updateStrategy BlueGreen asks: the old one, of "
        "`status.former`, serves until the new one is Ready.",
        Reason.ROTATING: "Another key, token or credential is replacing it; what is in the Secret works until then, "
        "and for a while longer.",
        Reason.SEARCHING: "The operator is finding out whether something exists before it acts.",
        Reason.ADOPTING: "An existing resource is being taken over.",
        Reason.CONFLICT: "The cloud refuses this in the present state, or something else has the name; the operator "
        "tries again.",
        Reason.RATE_LIMITED: "The cloud asks for fewer requests, or the `rateLimit` of the account is used up; the "
        "operator tries again later.",
        Reason.UPLOADING: "The records are being read, checked and uploaded; nothing is paid yet.",
        Reason.SUBMITTING: "The batch is being created in the cloud.",
        Reason.RETRYING: "Some records have no answer, or failed in a way that `retryPolicy` repeats; only these are "
        "sent, failures not before `status.retryTime`.",
        Reason.PUBLISHING: "The answers are being read from the cloud and written where `output` says.",
        Reason.LATE_CREATE: "The cloud acted on a create long after the operator gave up on it; the operator ends the "
        "resource whose id the message has.",
    },
    Resolver.AUTHOR: {
        Reason.BACK_OFF: "It was restarted or recreated several times, as `recovery` or `updateStrategy` asks, and "
        "did not run for ten minutes since; the next attempt is at `status.nextAttemptTime`, or as soon as the spec "
        "changes.",
        Reason.MAX_RUNTIME_REACHED: "It ran for `lifetime.maxRuntimeSeconds` and was stopped; a new "
        "gpurelay.dev/restarted-at starts it again.",
        Reason.OUTSIDE_SCHEDULE: "It is stopped, or not created yet, as `lifetime.schedule` asks; it runs again from "
        "`status.nextScheduleTime`, if the cloud has room then.",
        Reason.PAUSED: "The annotation gpurelay.dev/paused is `true`, or of a batch or schedule "
        "gpurelay.dev/plan-only; remove it to continue. As the reason of `Ready`: something would be done without it.",
        Reason.PLAN_ONLY: "The annotation gpurelay.dev/plan-only is `true`: `status.plan` says what would be done, at "
        "what price and with what loss; remove the annotation, and the operator does it.",
        Reason.FAILED: "The cloud says that it failed; `status.statusReason` has its words. `recovery.onFailed` can "
        "restart or recreate it.",
        Reason.GREEN_FAILED: "The cluster that was to replace this one failed and was ended; this one stays in "
        "service. The message says how it failed; change the spec, or a Secret that it uses, to try again.",
        Reason.TERMINATED_EXTERNALLY: "It is gone from the cloud, and the operator did not end it. "
        "For a workload, `recovery.onTerminated: Recreate` creates another.",
        Reason.CREATE_OUTCOME_UNKNOWN: "A create was sent, its answer was lost, and the cloud offers no way to find "
        "out. Look in the cloud's console for what the message says; then set gpurelay.dev/adopt-id to its id, or, if "
        "it does not exist, gpurelay.dev/retry-create to the token that the message names.",
        Reason.ADOPTION_REFUSED: "The resource of gpurelay.dev/adopt-id, or of `nodeId`, or of a former object of this "
        "name that was restored, does not exist, differs from the spec, belongs to another object, or the account does "
        "not allow adoption; the message says which.",
        Reason.ALREADY_EXISTS: "The organization has it already, and it has no name that shows which object owns "
        "it: gpurelay.dev/adopt-id takes it over, unless it belongs to another object, which the message names.",
        Reason.LAST_OWNER: "An organization needs an owner: the last one can neither be removed nor get another role. "
        "Make somebody else an owner first.",
        Reason.LANE_INTENT_REQUIRED: "The lane of a ServingDeployment has live deployments already; the message names "
        "them. Set `acknowledgeLaneJoin: true` to join them, or `rollout.role: green` to replace them.",
        Reason.REPLICAS_OUT_OF_BOUNDS: "`replicas.desired` is outside of `replicas.min` and `replicas.max`: nothing is "
        "created or scaled until it is between them.",
        Reason.IDENTITY_MISMATCH: "What status records may not be this object's: its name in the cloud differs, since "
        "`status` was edited, or another object, organization or `RELAY_INSTALLATION` recorded it. The operator does "
        "not touch it; the message says what to correct.",
        Reason.IMMUTABLE_FIELD_CHANGED: "The cloud cannot change these fields of a living resource, and "
        "`updateStrategy` is Never: put them back, or set `updateStrategy.type: Recreate`.",
        Reason.UNREADABLE: "A field holds what this release cannot read; the message names it. Or the object has "
        "more levels, or more lists and objects, than are read. Nothing is done for it until it is corrected.",
        Reason.OBJECT_TOO_LARGE: "The object has more than 512 KiB, so its status might not fit. Nothing is created "
        "until the object is smaller.",
        Reason.NOT_SERVED: "The cloud lacks a call that the operator needs to act or to look: the message says which, "
        "and what to do by hand. `Ready` stays what it was last seen to be, unless the object is being deleted.",
        Reason.SPEC_INVALID: "The cloud refuses the spec, or status cannot be written: the message has the words of "
        "the cloud, or of the API server.",
        Reason.ENV_MISSING: "A Secret or ConfigMap that the spec refers to is missing, lacks the key or is too large.",
        Reason.CONNECTION_REFUSED: "The Secret or ConfigMap of `connection` cannot be written: it is another's, "
        "its texts would be too long, or the API server refuses it.",
        Reason.EXPIRED: "It is no longer valid, and the spec does not ask for another: delete its Secret to get one. "
        "`rotateBeforeSeconds`, of a ProvisioningToken `renewBeforeSeconds`, replaces it in time.",
        Reason.SECRET_TAKEN: "The Secret of `secretName` exists and is not this object's, or cannot be written: "
        "nothing is sent. Delete it, or recreate the object with another name.",
        Reason.ENV_CHANGED: "What the environment refers to has changed since the resource was created.",
        Reason.REFERENCE_NOT_FOUND: "An object that the spec refers to does not exist in this namespace; this one "
        "waits for it.",
        Reason.REFERENCE_NOT_READY: "An object that the spec refers to is not Ready yet; its own conditions say "
        "why. This one waits for it.",
        Reason.REFERENCE_DELETING: "An object that the spec refers to is being deleted: refer to another, or create it "
        "again.",
        Reason.REFERENCE_OTHER_ACCOUNT: "An object that the spec refers to uses another account, whose "
        "organization this one cannot reach: give both the same `accountRef`.",
        Reason.SUSPENDED: "`spec.suspend` is true; set it to false to continue.",
        Reason.INPUT_MISSING: "The ConfigMap, Secret, key or object that `input` names does not exist; the batch waits "
        "for it. If a file of the cloud does not exist, the batch fails.",
        Reason.INPUT_CHANGED: "The input was replaced while it was read, and is read again from its beginning. If some "
        "of it was sent before it changed, nothing more is sent until it is what it was; the message says so.",
        Reason.INPUT_UNAVAILABLE: "The input cannot be read: forbidden, not allowed by the administrator, or the "
        "store does not answer; the operator tries again. The message says which.",
        Reason.INPUT_INVALID: "Some records cannot be sent as they are; `status.problems` has lines and reasons. "
        "Nothing was sent or paid.",
        Reason.CREDENTIALS_INVALID: "A Secret with credentials does not exist, or lacks a key that its store needs; "
        "the batch waits for it.",
        Reason.OUTPUT_EXISTS: "There is an output already, and `output.onExisting` is Fail. If you paid already, the "
        "cloud keeps the answers until the output is gone or `output` names another place.",
        Reason.OUTPUT_MAY_NOT_FIT: "The input and 400 bytes for each record are more than a ConfigMap holds (1 MiB): "
        "the answers are likely too large. Use `output.url`, now or when they do not fit.",
        Reason.OUTPUT_TOO_LARGE: "The answers do not fit into a ConfigMap (1 MiB): use `output.url`. If you paid "
        "already, the cloud keeps the answers until `output` names another place; nothing is paid again.",
        Reason.OUTPUT_UNAVAILABLE: "The output cannot be written: bucket missing or forbidden, no Secret, or the "
        "store does not answer. The operator tries again; the cloud keeps its files, and the message says how to fetch "
        "them.",
        Reason.BATCH_REFUSED: "The cloud refuses the batch or its records; `status.problems` has its words.",
        Reason.TOO_MANY_FAILURES: "More records failed than `failurePolicy` allows; the output is published.",
        Reason.DEADLINE_EXCEEDED: "It took longer than `activeDeadlineSeconds`; the answers so far are published.",
        Reason.BUDGET_EXCEEDED: "A workload would cost more than `budget.maxPricePerHourCents`: it is not created, "
        "started or scaled up; one that runs already runs on, beside the condition `BudgetExceeded`. A batch cost as "
        "much as `budget` allows and was cancelled; the answers so far are published.",
        Reason.PRICE_UNKNOWN: "A limit is set, and nothing says what this would cost: the catalog has no such GPU "
        "model or size, or cannot be read. Nothing is created, started or scaled up meanwhile.",
        Reason.ACCOUNT_MISSING: "The account that `accountRef` names does not exist, or there is no default account "
        "for this namespace.",
        Reason.SCHEDULE_INVALID: "`spec.schedule`, of a workload `lifetime.schedule`, cannot be read, names a date "
        "that no year has, or never lets anything run; nothing is started or stopped.",
        Reason.TIME_ZONE_UNKNOWN: "`spec.timeZone` is not a name in the IANA list; nothing is started.",
        Reason.TEMPLATE_REFUSED: "The API server refuses the batch that `spec.batchTemplate` describes; the message "
        "has its words. The operator tries again, less and less often, and when the spec changes.",
    },
    Resolver.ACCOUNT_OWNER: {
        Reason.WAITING_FOR_BUDGET: "The account's `budget` has no room for it: the message says what is missing, and "
        "the oldest object goes first once there is room. Or the cloud refused it: the funds (INSUFFICIENT_BALANCE) or "
        "the monthly limit (SPEND_LIMIT_REACHED) are used up; the next attempt is at `status.nextAttemptTime`.",
        Reason.BALANCE_EXHAUSTED: "Stopped because the balance ran out; the cloud deletes a pod at "
        "`status.deletionDeadline` unless it is funded. Started again when funds are back. Of a batch: it runs, and "
        "its records wait for funds.",
        Reason.ACCOUNT_REFUSED: "The account cannot be used; the account's own conditions say why.",
        Reason.ACCOUNT_UNAUTHORIZED: "The cloud refuses the key: wrong, revoked or expired (401). Put a valid key into "
        "the Secret.",
        Reason.ACCOUNT_FORBIDDEN: "The key lacks a scope or belongs to another organization, or the organization has "
        "used up a quota (403); the message has the cloud's words. Of a batch: the organization has no access to "
        "batches (404). The operator tries again every five minutes.",
        Reason.ACCOUNT_SUSPENDED: "The key is good, and the cloud has suspended the organization, for its balance or "
        "for a review (403 account_suspended, account_unavailable); the message has its words. Add funds, or ask the "
        "cloud. Nothing is given up meanwhile: the operator tries again every five minutes.",
        Reason.SECRET_MISSING: "The Secret of `apiKeySecretRef` does not exist, or lacks the key. The account waits "
        "for it: Reconciling for five minutes, then Stalled.",
        Reason.IN_USE: "It is deleted, and other objects, which the message names, depend on it: delete them first. "
        "Of a GpuVm: it is to be stopped or ended, and waits for a VmSnapshot that is being made of it.",
        Reason.OFFLINE: "The node does not report: nothing is placed on it until it does. Check the machine; the "
        "operator looks again every five minutes.",
        Reason.RUNWAY_SHORT: "The available balance is below the cloud's floor, or lasts for less than a day.",
    },
    Resolver.ADMINISTRATOR: {
        Reason.CRD_OUTDATED: "A CRD is older than the operator: the API server would drop what the operator has to "
        "record about a paid resource, so nothing is created; existing resources are looked after. The message has the "
        "command that updates the CRDs; the operator notices the update by itself.",
        Reason.LEFTOVER_UNRECORDED: "The API server refuses the ConfigMap that records a resource which stays in the "
        "cloud without an object: check rights, quotas and admission policies in the operator's namespace. Or the "
        "object's namespace has 1,000 such records: end or adopt some. The operator tries again.",
        Reason.WRITE_REFUSED: "The API server refuses what the operator writes to the object, mostly its finalizer or "
        "an annotation; the message has its words. Nothing is created before that is written, and an object that is "
        "deleted stays. If status is refused, only an Event says so. The operator tries again.",
        Reason.KIND_DISABLED: "The cloud's description does not show the calls that this kind needs: it is off until "
        "`RELAY_ASSUMED_KINDS` names it (the chart's value `assumedKinds`). What the object has in the cloud is left "
        "as it is, and ended when the object is deleted.",
        Reason.ACCOUNT_NOT_ALLOWED: "The account's URL is not in the operator's allow-list, or the cluster-wide "
        "account does not admit this namespace or this kind of object. What the object has in the cloud is left as it "
        "is. When the object is deleted, the operator ends what it created for it, if the name in the cloud proves "
        "that.",
        Reason.WEBHOOK_REFUSED: "The cloud refuses the subscription; the message has its words. Polling takes over.",
        Reason.DELIVERIES_MISSING: "The cloud's webhooks do not arrive: its last deliveries failed, or polling found "
        "changes that none reported. Make sure that the cloud can reach the operator's public URL. Polling takes over.",
    },
    Resolver.CLOUD: {
        Reason.WAITING_FOR_CAPACITY: "The cloud has no room for this now; the next attempt is at "
        "`status.nextAttemptTime`, with the next of `gpu.modelIds`.",
        Reason.DEPLOYING: "The cloud is placing or starting it; the message has its word.",
        Reason.STARTING: "It was stopped and is being started again.",
        Reason.STOPPING: "It is being stopped.",
        Reason.RESTARTING: "The annotation gpurelay.dev/restarted-at asked for a restart.",
        Reason.SCALING: "The number of replicas is being changed.",
        Reason.DELETING: "The object is deleted; the cloud has not confirmed the end yet.",
        Reason.POD_NODE_BUSY: "The GPUs of the node that has the volume are taken (POD_NODE_BUSY); the operator tries "
        "again.",
        Reason.POD_NODE_OFFLINE: "The node that has the volume is offline (POD_NODE_OFFLINE); the operator tries "
        "again.",
        Reason.POD_STOPPING: "The previous run is still being torn down (POD_STOPPING); the operator tries again.",
        Reason.POD_NODE_NO_INFINIBAND: "The node's agent is too old for an organization with InfiniBand "
        "(POD_NODE_NO_INFINIBAND): ask the cloud, or recreate the pod elsewhere, without its volume.",
        Reason.INTERRUPTED: "The node stopped reporting, and you are not billed. Unless the node returns, the "
        "cloud deletes a pod at `status.deletionDeadline`.",
        Reason.DEGRADED: "Some replicas are not healthy; the message says which and why.",
        Reason.CLOUD_UNAVAILABLE: "The cloud does not answer, or its answers make no sense; `Ready` stays what it was "
        "last seen to be.",
        Reason.CANCELLING: "It is being cancelled in the cloud; records under way still finish, and are paid.",
        Reason.RESULTS_LOST: "The cloud no longer has a file with results, or has one that does not fit its own "
        "counts.",
    },
}
"""When each reason appears, grouped by who can resolve it."""
REASONS: Final = {
    reason: ReasonDoc(appears, resolver) for resolver, rows in _BY_RESOLVER.items() for reason, appears in rows.items()
}
