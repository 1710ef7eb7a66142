"""Every metric of the operator, declared once.

Label values come from closed sets, or name something as rare as a namespace, account or schedule; never an id.
"""

from collections.abc import Iterable
from enum import StrEnum
from functools import cache, partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

_RECONCILE_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_QUEUE_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300)
_CLOUD_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WEBHOOK_TO_STATUS_SECONDS = (
    *(0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25),
    *(0.3, 0.4, 0.5, 0.75, 1, 1.5, 2, 3, 5),
)
_INT64 = 2**63 - 1
_STATUSES = frozenset(
    {
        *(200, 201, 202, 204, 206, 301, 302, 303, 307, 308),
        *(400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 416, 422, 429),
        *(500, 502, 503, 504),
    }
)
"""Statuses that the specification names or gateways usually send; a cloud may send any, and each would be a series."""


class WebhookOutcome(StrEnum):
    """The outcome of one delivery; each is counted."""

    ACCEPTED = "accepted"
    BAD_SIGNATURE = "bad_signature"
    DUPLICATE = "duplicate"
    TOO_LARGE = "too_large"
    BUSY = "busy"
    UNKNOWN_ACCOUNT = "unknown_account"
    MALFORMED = "malformed"
    """The body is compressed or incomplete, or has a valid signature but is not an event."""


class Metrics:
    """The table of metrics in one registry; `/metrics` shows that registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self.build = Info("gpurelay_build", "Version of the operator.", registry=registry)
        self.leader = gauge("gpurelay_leader", "1 while this replica leads.")

        self.reconciles = counter("gpurelay_reconciles", "Passes over an object.", ["kind", "outcome"])
        self.reconcile_seconds = histogram(
            "gpurelay_reconcile_duration_seconds",
            "Time of one pass over an object.",
            ["kind"],
            buckets=_RECONCILE_SECONDS,
        )
        self.objects = gauge(
            "gpurelay_objects", "Objects by kind and the reason of their Ready condition.", ["kind", "reason"]
        )
        self.creates_unknown = gauge(
            "gpurelay_create_outcome_unknown",
            "Objects whose create may or may not have been acted on: a person has to decide.",
            ["kind"],
        )

        self.troubles = gauge(
            "gpurelay_troubles",
            "Objects of which a condition tells something bad, by kind and condition.",
            ["kind", "condition"],
        )
        self.deletion_deadlines = gauge(
            "gpurelay_deletion_deadlines",
            "Objects whose resource the cloud will delete at a time that their status tells.",
            ["kind"],
        )
        self.deletions = gauge(
            "gpurelay_deletions",
            "Objects that are being deleted: what they have in the cloud may still cost something.",
            ["kind"],
        )
        self.leftovers = gauge(
            "gpurelay_leftovers",
            "Resources that belong to no object: kept on purpose, orphans, or created too late and being ended.",
            ["fate"],
        )
        self.late_creates = counter(
            "gpurelay_late_creates",
            "Creates that the cloud acted on after they were given up; they are ended.",
            ["kind"],
        )

        self.gpus = gauge("gpurelay_gpus", "GPUs of workloads that run.", ["namespace", "kind", "model"])
        self.batch_records = gauge(
            "gpurelay_batch_records",
            "Records of the InferenceBatches that exist: answered, failed, or waiting for an answer.",
            ["namespace", "outcome"],
        )
        self.batch_cost_usd = gauge(
            "gpurelay_batch_cost_usd", "What the InferenceBatches that exist have cost, in dollars.", ["namespace"]
        )
        self.schedule_last_success = gauge(
            "gpurelay_schedule_last_success_timestamp_seconds",
            "When a batch of an InferenceBatchSchedule was Complete last; absent before the first.",
            ["namespace", "schedule"],
        )

        self.queue_depth = gauge("gpurelay_queue_depth", "Objects ready for a worker.")
        self.queue_oldest_seconds = gauge(
            "gpurelay_queue_oldest_seconds", "How long the longest waiting object has been ready."
        )
        self.queue_wait_seconds = histogram(
            "gpurelay_queue_wait_seconds",
            "Time from an object being ready to a worker taking it, by priority.",
            ["priority"],
            buckets=_QUEUE_SECONDS,
        )

        self.cloud_requests = counter(
            "gpurelay_cloud_requests",
            "Requests to the cloud; status is the answer's, its class if it is rare, or `none` without an answer.",
            ["operation", "status"],
        )
        self.cloud_request_seconds = histogram(
            "gpurelay_cloud_request_duration_seconds",
            "Time of one request to the cloud, retries apart.",
            ["operation"],
            buckets=_CLOUD_SECONDS,
        )
        self.kubernetes_writes = counter(
            "gpurelay_kubernetes_writes",
            "Writes to the Kubernetes API by plural name; outcome is the status answered, or `none`.",
            ["kind", "verb", "outcome"],
        )

        self.webhook_deliveries = counter("gpurelay_webhook_deliveries", "Webhook deliveries received.", ["outcome"])
        self.webhook_to_status_seconds = histogram(
            "gpurelay_webhook_to_status_seconds",
            "Time from a webhook being received to the status it led to being written.",
            buckets=_WEBHOOK_TO_STATUS_SECONDS,
        )
        for outcome in WebhookOutcome:  # present from the start, so that a rate() sees the first one
            self.webhook_deliveries.labels(outcome)

        # One series per account: as many as there are CloudAccount objects, removed with them.
        self.account_available_cents = gauge(
            "gpurelay_account_available_cents",
            "Available balance of an account's organization, in cents.",
            ["namespace", "account"],
        )
        self.account_floor_cents = gauge(
            "gpurelay_account_auto_stop_floor_cents",
            "Balance of an account's organization below which the cloud stops what runs, in cents.",
            ["namespace", "account"],
        )
        self.account_burn_cents_per_hour = gauge(
            "gpurelay_burn_cents_per_hour",
            "What an account's organization spends at this moment, in cents an hour.",
            ["namespace", "account"],
        )

        # Per account, as many series as its status lists at most.
        self.spend_cents = gauge(
            "gpurelay_spend_cents",
            "What an account's organization used this month, by whom, in cents.",
            ["account_namespace", "account", "namespace", "cost_center"],
        )

        self._spenders: dict[tuple[str, str], set[tuple[str, str]]] = {}
        """The labels of `spend_cents` by account: finding them takes a walk through those of all accounts."""

        # Looking up a series takes longer than counting in it. Series that can end are not kept.
        self._reconciles = cache(self.reconciles.labels)
        self._reconcile_seconds = cache(self.reconcile_seconds.labels)
        self._queue_wait_seconds = cache(self.queue_wait_seconds.labels)
        self._cloud_requests = cache(self.cloud_requests.labels)
        self._cloud_request_seconds = cache(self.cloud_request_seconds.labels)
        self._kubernetes_writes = cache(self.kubernetes_writes.labels)
        self._webhook_deliveries = cache(self.webhook_deliveries.labels)

    def on_pass(self, kind: str, outcome: str, priority: str, waited: float, seconds: float) -> None:
        """Count one pass over an object, the time that the object waited, and the duration of the pass."""
        self._reconciles(kind, outcome).inc()
        self._reconcile_seconds(kind).observe(seconds)
        self._queue_wait_seconds(priority).observe(waited)

    def on_write(self, plural: str, verb: str, status: int) -> None:
        """Count one write to the Kubernetes API; status 0 means no answer."""
        self._kubernetes_writes(plural, verb, str(status) if status else "none").inc()

    def on_cloud_request(self, operation: str, status: int | None, seconds: float) -> None:
        """Count one request to the cloud; status None means no answer."""
        self._cloud_requests(operation, "none" if status is None else _status_label(status)).inc()
        self._cloud_request_seconds(operation).observe(seconds)

    def on_delivery(self, outcome: str) -> None:
        """Count one delivery of a webhook."""
        self._webhook_deliveries(outcome).inc()

    def on_late_create(self, kind: str) -> None:
        """Count a create that the cloud acted on after the operator had given it up."""
        self.late_creates.labels(kind).inc()

    def on_balance(
        self,
        namespace: str,
        account: str,
        available_cents: int,
        burn_cents_per_hour: int | None,
        floor_cents: int | None,
    ) -> None:
        """Show an account's balance; a burn or a floor that the cloud does not report keeps its last value.

        Without any, the floor is 0.
        """
        self.account_available_cents.labels(namespace, account).set(_shown(available_cents))
        floor = self.account_floor_cents.labels(namespace, account)
        if floor_cents is not None:
            floor.set(_shown(floor_cents))
        if burn_cents_per_hour is not None:
            self.account_burn_cents_per_hour.labels(namespace, account).set(_shown(burn_cents_per_hour))

    def on_spend(self, namespace: str, account: str, shares: Iterable[tuple[str, str, int]]) -> None:
        """Show only what an account's organization used this month, by namespace and cost centre."""
        former, now = self._spenders.pop((namespace, account), set()), set[tuple[str, str]]()
        for spender, cost_center, cents in shares:
            now.add((spender, cost_center))
            self.spend_cents.labels(namespace, account, spender, cost_center).set(_shown(cents))
        for spender, cost_center in former - now:
            self.spend_cents.remove(namespace, account, spender, cost_center)
        if now:
            self._spenders[namespace, account] = now

    def forget_account(self, namespace: str, account: str) -> None:
        """Remove the series of an account that is gone."""
        self.account_available_cents.remove(namespace, account)
        self.account_floor_cents.remove(namespace, account)
        self.account_burn_cents_per_hour.remove(namespace, account)
        self.on_spend(namespace, account, ())


def _status_label(status: int) -> str:
    """The status, or only its class if it is rare."""
    if status in _STATUSES:
        return str(status)
    return f"{status // 100}xx" if 100 <= status < 600 else "other"


def _shown(cents: int) -> int:
    """The number within 64 bits, as status has it: a gauge cannot hold every number that the cloud may answer with."""
    return max(min(cents, _INT64), -_INT64)


def process_metrics(version: str, kinds: Iterable[str]) -> Metrics:
    """The metrics of a whole process: the table, and what Python and the system report about the process.

    `kinds` are those that create something in the cloud.
    """
    disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for each counter and histogram, which nobody reads
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    metrics = Metrics(registry)
    metrics.build.info({"version": version})
    for kind in kinds:  # present from the start, so that an increase() sees the first one
        metrics.late_creates.labels(kind)
    return metrics
