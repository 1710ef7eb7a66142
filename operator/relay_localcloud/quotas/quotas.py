"""Quotas (assumed): how much of everything an organization may have, unless control sets another limit for it.

Code that creates something calls `require` first. Nothing else does, so stopping, ending, shrinking and reading are
never refused, and a limit below the present number removes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel import counts
from relay_localcloud.kernel.rows import Rows
from relay_localcloud.kernel.store import Store, Tx

QUOTA_EXCEEDED: Final = "QUOTA_EXCEEDED"


@dataclass(frozen=True, eq=False)
class Quota:
    """What a quota limits: its name in JSON, its default, and advice for a caller at the limit."""

    name: str
    usual: int
    advice: str


_FORGOTTEN = "wait, since the cloud forgets what ended after 24 hours"
_REVOKED = "revoke some, and wait 24 hours, since revoked ones count until then"

PODS: Final = Quota("pods", 20_000, "terminate some")
VMS: Final = Quota("vms", 20_000, "terminate some")
CLUSTERS: Final = Quota("clusters", 10_000, "terminate some")
REPLICAS: Final = Quota("replicas", 20_000, "scale clusters or deployments down")
DEPLOYMENTS: Final = Quota("servingDeployments", 1_000, "delete some")
GPUS: Final = Quota("gpus", 100_000, "stop or scale down workloads that hold GPUs")
VOLUME_GB: Final = Quota("volumeGb", 10_000_000, "terminate pods and VMs with large volumes")
TERMINATED_PODS: Final = Quota("terminatedPods", 200_000, _FORGOTTEN)
TERMINATED_VMS: Final = Quota("terminatedVms", 200_000, _FORGOTTEN)
TERMINATED_CLUSTERS: Final = Quota("terminatedClusters", 200_000, _FORGOTTEN)
REQUEST_BYTES: Final = Quota(
    "requestBytes", 2_000_000_000, f"scale down what has a large env, or terminate it and {_FORGOTTEN}"
)
FILES: Final = Quota("files", 100_000, "delete some")
DELETED_FILES: Final = Quota("deletedFiles", 200_000, _FORGOTTEN)
FILE_BYTES: Final = Quota("fileBytes", 20_000_000_000, "delete files")
BATCHES: Final = Quota("batches", 10_000, "cancel some, or wait until they end")
ENDED_BATCHES: Final = Quota("endedBatches", 200_000, "wait, since the cloud forgets what ended after 30 days")
WEBHOOKS: Final = Quota("webhooks", 1_000, "delete some")
API_KEYS: Final = Quota("apiKeys", 1_000, _REVOKED)
SSH_KEYS: Final = Quota("sshKeys", 1_000, "delete some")
REGISTRY_CREDENTIALS: Final = Quota("registryCredentials", 1_000, "delete some")
RUNNER_POOLS: Final = Quota("runnerPools", 1_000, "delete some")
BACKENDS: Final = Quota("backends", 1_000, "delete some")
PROVISIONING_TOKENS: Final = Quota("provisioningTokens", 1_000, _REVOKED)
MEMBERS: Final = Quota("members", 1_000, "remove some")
INVITES: Final = Quota("invites", 1_000, "wait, since accepted and expired ones count for another 24 hours")
USAGE_RECORDS: Final = Quota("usageRecords", 200_000, "wait, since the cloud forgets what ran 400 days after its end")
REQUESTS_PER_SECOND: Final = Quota("requestsPerSecond", 4_000, "wait a second")
"""Nothing is counted for it: `Rates` gives the limit, and a caller over it gets 429 (`http/ratelimit.py`)."""

QUOTAS: Final = (
    *(PODS, TERMINATED_PODS, VMS, TERMINATED_VMS, CLUSTERS, TERMINATED_CLUSTERS, REPLICAS, DEPLOYMENTS, GPUS),
    *(VOLUME_GB, REQUEST_BYTES, FILES, DELETED_FILES, FILE_BYTES, BATCHES, ENDED_BATCHES, WEBHOOKS, API_KEYS, SSH_KEYS),
    *(REGISTRY_CREDENTIALS, RUNNER_POOLS, BACKENDS, PROVISIONING_TOKENS, MEMBERS, INVITES, USAGE_RECORDS),
    REQUESTS_PER_SECOND,
)
"""All quotas, in the order in which they are shown; `counted.py` says what counts towards each."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that control set for an organization."""

    organization_id: str
    quota: str
    most: int


LIMITS: Final = Rows(Limit, "quotas", key=("organization_id", "quota"))


@dataclass(frozen=True, slots=True)
class Standing:
    """A quota of an organization, and how much of it is used."""

    quota: Quota
    limit: int
    used: int


def standings(tx: Tx, organization_id: str, quotas: Iterable[Quota] = QUOTAS) -> Iterator[Standing]:
    """The organization's use of each of these quotas, in their order."""
    used = counts.of_organization(tx.connection, organization_id)
    limits = {limit.quota: limit.most for limit in LIMITS.all(tx, organization_id=organization_id)}
    for quota in quotas:
        yield Standing(quota, limits.get(quota.name, quota.usual), used.get(quota.name, 0))


def require(tx: Tx, organization_id: str, more: Mapping[Quota, int]) -> None:
    """Refuse with 403 and QUOTA_EXCEEDED what would exceed the organization's limits; adding nothing never does."""
    for standing in standings(tx, organization_id, (quota for quota, amount in more.items() if amount > 0)):
        if standing.used + more[standing.quota] > standing.limit:
            raise ApiError(403, _refusal(standing), QUOTA_EXCEEDED)


def request_bytes(request: BaseModel, replicas: int, login_bytes: int = 0) -> int:
    """What a create counts towards `REQUEST_BYTES`: once for each wanted replica, at least once.

    On Kubernetes, each replica has a copy of it and of the login at its registry; the cloud keeps one in any case.
    """
    own = len(request.model_dump_json(by_alias=True, exclude_none=True).encode())
    return (own + login_bytes) * max(replicas, 1)


def left(tx: Tx, organization_id: str, quota: Quota) -> int:
    """How much more the organization may have; negative if it exceeds the limit already."""
    (standing,) = standings(tx, organization_id, [quota])
    return standing.limit - standing.used


def _refusal(standing: Standing) -> str:
    quota = standing.quota
    return (
        f"The quota {quota.name} of this organization is {standing.limit}, and {standing.used} are in use: "
        f"{quota.advice}; or ask the administrator of this cloud for more."
    )


def set_limits(tx: Tx, organization_id: str, limits: Mapping[str, int | None]) -> None:
    """Set limits of an organization by the names of quotas; None restores the default."""
    for name, most in limits.items():
        LIMITS.remove(tx, organization_id=organization_id, quota=name)
        if most is not None:
            LIMITS.insert(tx, organization_id=organization_id, quota=name, most=most)


class Rates:
    """How many requests per second organizations may send; every request reads it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, int] = {}
        store.watch(LIMITS.table, "organization_id", ("most",), self._forget)

    def of(self, organization_id: str) -> int:
        """The organization's limit, at least 1."""
        if organization_id not in self._known:
            with self._store.transaction() as tx:
                (standing,) = standings(tx, organization_id, [REQUESTS_PER_SECOND])
            self._known[organization_id] = max(standing.limit, 1)
        return self._known[organization_id]

    def _forget(self, organization_id: str) -> None:
        self._known.pop(organization_id, None)
