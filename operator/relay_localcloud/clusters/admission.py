"""The creation of a cluster: its checks, its row and its first replicas."""

import secrets
from typing import Any

from relay_localcloud.capacity import catalog, offers
from relay_localcloud.clusters import clusters, moves
from relay_localcloud.clusters.clusters import Cluster
from relay_localcloud.clusters.moves import REPLICAS
from relay_localcloud.faults import quotes
from relay_localcloud.http.errors import ApiError
from relay_localcloud.kernel.store import Tx
from relay_localcloud.kernel.vault import Vault
from relay_localcloud.money import billing
from relay_localcloud.quotas import quotas
from relay_localcloud.replicas.states import MOST_REPLICAS
from relay_localcloud.runtimes.runtime import Noun
from relay_localcloud.tooling import registry_credentials
from relay_localcloud.workloads import admission, container
from relay_wire.clusters import ClusterCreate, ClusterStatus


def create(tx: Tx, vault: Vault, organization_id: str, body: ClusterCreate, price_factor: float) -> Cluster:
    """Create a cluster and place its replicas; ApiError with a capacity code if none of them finds room."""
    tier = body.tier or "standard"
    admission.require_disk(body.disk_size_gb)
    admission.require_count("gpusPerReplica", body.gpus_per_replica)
    require_replica_count(body.replica_count or 1)
    admission.require_tier(tier, admission.TIERS)
    container.check(body)
    body = container.from_template(body)
    _require_runnable(tx, body)
    login_bytes = registry_credentials.require_usable(tx, vault, organization_id, body.registry_credential_id)
    admission.require_regions(tx, organization_id, body)
    shape, price_cents = _shape(body)
    named = {"organization_id": organization_id, "name": body.name, "terminated_at": None}
    if clusters.CLUSTERS.find(tx, **named) is not None:
        raise ApiError(409, f"There is a live cluster {body.name!r} already; names are free again after termination.")
    billing.require_funds(tx, organization_id)
    replica_count = 1 if body.replica_count is None else body.replica_count
    request_bytes = quotas.request_bytes(body, replica_count, login_bytes)
    moves.require_replicas(tx, organization_id, replica_count, shape["gpus_per_replica"], request_bytes)
    quotas.require(tx, organization_id, {quotas.CLUSTERS: 1, quotas.TERMINATED_CLUSTERS: 1})
    cluster_id = tx.new_id("cluster")
    made = clusters.CLUSTERS.insert(
        tx,
        **shape,
        organization_id=organization_id,
        name=body.name,
        id=cluster_id,
        status=ClusterStatus.PROVISIONING,
        replica_count=replica_count,
        active_replicas=0,
        replica_price_cents=quotes.locked(price_cents, price_factor),
        tier=tier,
        label=cluster_id.replace("_", "-"),
        deploy_token=f"dt_{secrets.token_hex(24)}",
        created_as=body,
        login_bytes=login_bytes,
        created_at=tx.now,
        updated_at=tx.now,
    )
    made = moves.settle(tx, made)
    REPLICAS.require_more(tx, made, had=0)
    return made


def require_replica_count(replica_count: int) -> None:
    """Refuse with 400 more replicas than a cluster may have."""
    if replica_count > MOST_REPLICAS:
        raise ApiError(400, f"replicaCount: at most {MOST_REPLICAS}.")


def _require_runnable(tx: Tx, body: ClusterCreate) -> None:
    """Refuse with 422 what this cloud's runtime does not support."""
    offers.require_image(tx, "imageUrl", body.image_url)
    for noun, is_asked in ((Noun.PRIVILEGE, body.privileged), (Noun.KERNEL_MODULE, body.kernel_modules)):
        if is_asked:
            offers.require_offered(tx, noun)


def _shape(body: ClusterCreate) -> tuple[dict[str, Any], int]:
    """The columns for the shape of each replica, and its catalog price in cents per hour."""
    if body.gpu_model_id is None:
        if body.gpus_per_replica:
            raise ApiError(422, "gpusPerReplica: it needs a gpuModelId.")
        size = catalog.cpu_size(body.resource_size)
        return {"gpus_per_replica": 0, "resource_size": size.resource_size}, size.price_per_hour_cents
    model = catalog.gpu_model(body.gpu_model_id)
    count = 1 if body.gpus_per_replica is None else body.gpus_per_replica
    if count < 1:
        raise ApiError(400, "gpusPerReplica: a cluster with a gpuModelId has at least one.")
    named = {"gpu_model_id": model.id, "resource_size": admission.gpu_size(body.resource_size, count)}
    shape = {**named, "gpus_per_replica": count}
    return shape, model.price_per_hour_cents * count
