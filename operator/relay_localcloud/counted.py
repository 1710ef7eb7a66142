"""Which rows of all rooms count towards each quota."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from relay_localcloud.batches.rows import BATCHES, FILES
from relay_localcloud.clusters import states as cluster_states
from relay_localcloud.clusters.clusters import CLUSTERS
from relay_localcloud.identity.credentials import KEYS as API_KEYS
from relay_localcloud.kernel import tables
from relay_localcloud.kernel.counts import Counted
from relay_localcloud.models.backends import BACKENDS
from relay_localcloud.money.ledger import USAGE
from relay_localcloud.providers.tokens import TOKENS
from relay_localcloud.quotas import quotas
from relay_localcloud.quotas.quotas import Quota
from relay_localcloud.serving import states as serving_states
from relay_localcloud.serving.rows import DEPLOYMENTS
from relay_localcloud.tooling.registry_credentials import CREDENTIALS
from relay_localcloud.tooling.runner_pools import POOLS
from relay_localcloud.webhooks.webhooks import WEBHOOKS
from relay_localcloud.workloads.ssh_keys import KEYS as SSH_KEYS
from relay_localcloud.workloads.transitions import HOLDS_GPUS
from relay_localcloud.workloads.workloads import POD, VM, WORKLOADS
from relay_wire.batches import FINAL


def _in(column: str, words: Iterable[StrEnum]) -> str:
    return f"{{row}}.{column} IN ({', '.join(sorted(repr(word.value) for word in words))})"


def _spec(field: str) -> str:
    return f"json_extract({{row}}.spec, '$.{field}')"


def _bytes(column: str) -> str:
    return f"length(CAST({{row}}.{column} AS BLOB))"


def _copied(table: str, each: str, serves: str, replicas: str, changes: tuple[str, ...]) -> Counted:
    """Bytes of which each desired replica has a copy, as `quotas.request_bytes` says."""
    return Counted(table, amount=f"({each}) * max(1, ({serves}) * {replicas})", changes=changes)


def _workloads(kind: str, *, live: bool) -> tuple[Counted]:
    ended = "IS NULL" if live else "IS NOT NULL"
    where = f"{{row}}.kind = '{kind}' AND {{row}}.terminated_at {ended}"
    return (Counted(_WORKLOADS, where, changes=("terminated_at",)),)


_WORKLOADS, _CLUSTERS, _DEPLOYMENTS = WORKLOADS.table.name, CLUSTERS.table.name, DEPLOYMENTS.table.name
_FILES, _BATCHES = FILES.table.name, BATCHES.table.name
_CLUSTER_SERVES, _DEPLOYMENT_SERVES = _in("status", cluster_states.SERVING), _in("status", serving_states.SERVING)
_LIVE_BATCH, _LIVE_FILE = f"NOT {_in('status', FINAL)}", "{row}.deleted_at IS NULL"
_LIVE = "{row}.terminated_at IS NULL"
_WRITTEN = ("output_bytes", "error_bytes")

COUNTED: Final[Mapping[Quota, tuple[Counted, ...]]] = {
    quotas.PODS: _workloads(POD, live=True),
    quotas.TERMINATED_PODS: _workloads(POD, live=False),
    quotas.VMS: _workloads(VM, live=True),
    quotas.TERMINATED_VMS: _workloads(VM, live=False),
    quotas.CLUSTERS: (Counted(_CLUSTERS, _LIVE, changes=("terminated_at",)),),
    quotas.TERMINATED_CLUSTERS: (Counted(_CLUSTERS, f"NOT {_LIVE}", changes=("terminated_at",)),),
    quotas.DEPLOYMENTS: (Counted(_DEPLOYMENTS, "{row}.gone_at IS NULL", changes=("gone_at",)),),
    quotas.REPLICAS: (
        Counted(_CLUSTERS, _CLUSTER_SERVES, "{row}.replica_count", ("status", "replica_count")),
        Counted(_DEPLOYMENTS, _DEPLOYMENT_SERVES, _spec("replicasDesired"), ("status", "spec")),
    ),
    quotas.GPUS: (
        Counted(_WORKLOADS, _in("status", HOLDS_GPUS), "{row}.gpu_count", ("status",)),
        Counted(
            _CLUSTERS, _CLUSTER_SERVES, "{row}.replica_count * {row}.gpus_per_replica", ("status", "replica_count")
        ),
        Counted(
            _DEPLOYMENTS,
            _DEPLOYMENT_SERVES,
            f"{_spec('replicasDesired')} * {_spec('gpuCountPerReplica')}",
            ("status", "spec"),
        ),
    ),
    quotas.VOLUME_GB: (
        Counted(_WORKLOADS, f"{{row}}.kind = '{POD}' AND {_LIVE}", "coalesce({row}.volume_gb, 0)", ("terminated_at",)),
        Counted(_WORKLOADS, f"{{row}}.kind = '{VM}' AND {_LIVE}", "{row}.disk_size_gb", ("terminated_at",)),
    ),
    quotas.REQUEST_BYTES: (
        Counted(_WORKLOADS, amount=_bytes("request"), changes=("request",)),
        _copied(
            _CLUSTERS,
            f"{_bytes('request')} + {{row}}.login_bytes",
            _CLUSTER_SERVES,
            "{row}.replica_count",
            ("request", "login_bytes", "status", "replica_count"),
        ),
        _copied(_DEPLOYMENTS, _bytes("spec"), _DEPLOYMENT_SERVES, _spec("replicasDesired"), ("status", "spec")),
    ),
    quotas.FILES: (Counted(_FILES, _LIVE_FILE, changes=("deleted_at",)),),
    quotas.DELETED_FILES: (Counted(_FILES, f"NOT {_LIVE_FILE}", changes=("deleted_at",)),),
    quotas.FILE_BYTES: (
        Counted(_FILES, _LIVE_FILE, "{row}.bytes", ("deleted_at",)),
        Counted(_BATCHES, _LIVE_BATCH, "{row}.output_bytes + {row}.error_bytes", ("status", *_WRITTEN)),
    ),
    quotas.BATCHES: (Counted(_BATCHES, _LIVE_BATCH, changes=("status",)),),
    quotas.ENDED_BATCHES: (Counted(_BATCHES, f"NOT {_LIVE_BATCH}", changes=("status",)),),
    quotas.WEBHOOKS: (Counted(WEBHOOKS.table.name),),
    quotas.API_KEYS: (Counted(API_KEYS.table.name),),
    quotas.SSH_KEYS: (Counted(SSH_KEYS.table.name),),
    quotas.REGISTRY_CREDENTIALS: (Counted(CREDENTIALS.table.name),),
    quotas.RUNNER_POOLS: (Counted(POOLS.table.name),),
    quotas.BACKENDS: (Counted(BACKENDS.table.name),),
    quotas.PROVISIONING_TOKENS: (Counted(TOKENS.table.name),),
    quotas.MEMBERS: (Counted(tables.members.name),),
    quotas.INVITES: (Counted(tables.invites.name),),
    quotas.USAGE_RECORDS: (Counted(USAGE.table.name),),
    quotas.REQUESTS_PER_SECOND: (),
}
