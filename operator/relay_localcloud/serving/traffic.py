"""The deployments that serve a model, with what routing must know about each; read on every request."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, bindparam, func, select, text

from relay_localcloud.kernel.prepared import Prepared
from relay_localcloud.kernel.store import Tx
from relay_localcloud.replicas.states import ReplicaState
from relay_localcloud.serving.lanes import Lane
from relay_localcloud.serving.rows import ENGINE_PORTS, deployments, replicas
from relay_localcloud.workloads.images import gateway_upstreams
from relay_wire.serving import GREEN, DeploymentStatus


@dataclass(frozen=True, slots=True)
class Published:
    """A deployment that is published as a backend of its model, with its healthy replicas, the oldest first."""

    sequence: int
    id: str
    organization_id: str
    model_id: str
    served_model_id: str
    apis: frozenset[str]
    weight: int
    cap: int  # concurrent requests of each replica; 0 for no limit
    lane: Lane
    is_green: bool
    created_at: int
    port: int  # of its engine
    replicas: Mapping[str, str | None]
    """By id, for a simulated cloud, the URL of the server that answers for the image; None for the built-in engine."""

    def free_replica(self, under_way: Mapping[str, int]) -> str | None:
        """The replica with the fewest requests of those below the cap, the oldest of several; None if all are busy."""
        with_room = [each for each in self.replicas if not self.cap or under_way.get(each, 0) < self.cap]
        return min(with_room, key=lambda each: under_way.get(each, 0), default=None)


def _field(name: str) -> ColumnElement[Any]:
    return func.json_extract(deployments.c.spec, f"$.{name}")


def _published(*conditions: ColumnElement[bool]) -> Prepared:
    d, r = deployments.c, replicas.c
    running = (r.deployment_id == d.id) & r.terminated_at.is_(None) & (r.status == ReplicaState.HEALTHY.value)
    takes_requests = (d.status != DeploymentStatus.DRAINING.value) | r.id.is_not(None)
    upstream = gateway_upstreams.c.image == r.engine_image
    query = (
        select(
            d.sequence,
            d.id,
            d.organization_id,
            d.public_model_id,
            _field("servedModelId"),
            _field("nativeFamilies"),
            _field("backendWeight"),
            _field("maxConcurrencyPerReplica"),
            d.node_pool,
            d.min_prompt_bytes,
            d.max_prompt_bytes,
            _field("rolloutRole"),
            d.created_at,
            _field("engine"),
            r.id,
            gateway_upstreams.c.url,
        )
        .select_from(deployments.outerjoin(replicas, running).outerjoin(gateway_upstreams, upstream))
        .where(text("gone_at IS NULL"), d.status != DeploymentStatus.STOPPED.value, takes_requests)
        .where(_field("isolated") == 0)
        .where(*conditions)
        .order_by(d.sequence, r.sequence)
    )
    return Prepared(query)


_OF_CATALOG: Final = deployments.c.catalog_id == bindparam("catalog")
_BEHIND: Final = _published(_OF_CATALOG, deployments.c.public_model_id == bindparam("model"))
_OF_ORGANIZATION: Final = _published(deployments.c.organization_id == bindparam("organization"))


def behind(tx: Tx, catalog_id: str, model_id: str) -> list[Published]:
    """The deployments published for a model of an organization's catalog, the oldest first."""
    return _grouped(_BEHIND.run(tx.connection, catalog=catalog_id, model=model_id).fetchall())


def of_organization(tx: Tx, organization_id: str) -> list[Published]:
    """The deployments that an organization has published, the oldest first."""
    return _grouped(_OF_ORGANIZATION.run(tx.connection, organization=organization_id).fetchall())


def _grouped(found: Sequence[tuple[Any, ...]]) -> list[Published]:
    grouped: dict[str, Published] = {}
    members: dict[str, dict[str, str | None]] = {}
    for place, identifier, *rest in found:
        owner, model, served, apis, weight, cap, pool, low, high, role, since, engine, each, url = rest
        mine = members.setdefault(identifier, {})
        if each is not None:
            mine[each] = url
        if identifier not in grouped:
            lane = Lane(pool, low, high)
            families = frozenset(json.loads(apis))
            port, is_green = ENGINE_PORTS[engine], role == GREEN
            grouped[identifier] = Published(
                place, identifier, owner, model, served, families, weight, cap, lane, is_green, since, port, mine
            )
    return list(grouped.values())
