"""How a ServingDeployment maps to a deployment (section 2, "Serving deployment"; the paths are assumed)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from pydantic import JsonValue

from relay_client import Cloud, NotFound, NotServed, items_of, operations
from relay_client.errors import clause
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import selector
from relay_operator.api.meta import CreateIntent
from relay_operator.api.servingdeployment import (
    DEFINITION,
    Role,
    Serving,
    ServingDeployment,
    ServingDeploymentSpec,
    ServingDeploymentStatus,
)
from relay_operator.budgets.prices import Capacity
from relay_operator.engine.fit_schema import moment
from relay_operator.engine.intent import digests
from relay_operator.engine.shared_lists import SharedLists
from relay_operator.flows.managed.ending import says
from relay_operator.flows.managed.resource import Change, ExternalResource, InputRefs, Inputs, Look, Progress
from relay_operator.flows.wiring import Parts
from relay_operator.kinds import lanes
from relay_operator.kinds.comparison import env_as_written
from relay_operator.kinds.records import NO_LIST
from relay_operator.kinds.replicas import said
from relay_operator.kinds.serving_request import (
    OF_A_RUNNING_GREEN,
    REPLICAS,
    changed,
    differences_for_life,
    is_within,
    lasting,
    lasting_differences,
    require_within,
    sent,
    settings,
    taken_out,
    there,
    those_like,
)
from relay_wire.serving import Deployment, DeploymentChange, DeploymentCreate, DeploymentStatus

_PROGRESS: Mapping[str, Progress] = {
    DeploymentStatus.DEGRADED: Progress.DEGRADED,
    DeploymentStatus.STOPPED: Progress.STOPPED,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A deployment and the live members of its lane, itself included; an empty lane if it is in none."""

    row: Deployment
    lane: tuple[Deployment, ...] = ()


class ServingDeployments(ExternalResource[ServingDeploymentSpec, ServingDeploymentStatus, Seen]):
    """How a ServingDeployment maps to a deployment, which has no name in the cloud."""

    definition = DEFINITION
    model = ServingDeployment
    runs = True

    def __init__(self, parts: Parts) -> None:
        self._lists = SharedLists[Mapping[str, Deployment]](parts.settings.poll_settled_seconds, parts.engine.clock)

    async def observe(self, cloud: Cloud, cloud_id: str, last: ServingDeploymentStatus, look: Look) -> Seen:
        """The deployment as the shared list shows it; a GET of its own if that list lacks it."""
        read = self._lists.recent if look is Look.ROUTINE else self._lists.fresh
        listed = await read(cloud, partial(_listed, cloud))
        row = listed.get(cloud_id)
        if row is None:
            row = await cloud.call(operations.GET_DEPLOYMENT, id=cloud_id)
        return Seen(row, lanes.lane_of(row, listed.values()))

    async def existing(self, cloud: Cloud, obj: Serving) -> Seen | None:
        """None: several deployments may be alike.

        Raises NotServed without the list: a deployment that could not be seen, and so not ended, is not created.
        """
        await self._lists.recent(cloud, partial(_listed, cloud))
        return None

    async def alike(self, cloud: Cloud, obj: Serving) -> Sequence[Seen]:
        listed = await self._lists.fresh(cloud, partial(_listed, cloud))
        return tuple(map(Seen, those_like(obj.spec, listed.values())))

    def made_at(self, observed: Seen) -> datetime | None:
        return moment(observed.row.created_at)

    async def create(self, cloud: Cloud, obj: Serving, intent: CreateIntent, inputs: Inputs) -> Seen:
        """Raises Conflict, and sends nothing, if the desired replicas are out of their bounds."""
        require_within(obj.spec, operations.CREATE_DEPLOYMENT.name)
        request = DeploymentCreate.model_validate(
            {
                **sent(obj.spec),
                "organizationId": await cloud.organization_id(),
                "gpuModelId": inputs.model_id,
                "env": dict(inputs.env) or None,
                "acknowledgeLaneJoin": obj.spec.acknowledge_lane_join,
            }
        )
        return Seen(await cloud.call(operations.CREATE_DEPLOYMENT, request))

    def of_another(self, obj: Serving, intent: CreateIntent, made: Seen) -> tuple[str, ...]:
        return differences_for_life(obj.spec, made.row)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(operations.DELETE_DEPLOYMENT, id=cloud_id)

    def input_refs(self, obj: Serving) -> InputRefs:
        return InputRefs(obj.spec.env or ())

    def models(self, obj: Serving) -> tuple[str, ...]:
        return obj.spec.gpu.candidates

    def capacity(self, obj: Serving, model_id: str) -> Capacity:
        return Capacity(model_id, obj.spec.gpu.count, replicas=obj.spec.replicas.desired)

    def grown(self, obj: Serving, observed: Seen) -> Capacity:
        """A stopped deployment starts with as many replicas as are asked for, whatever it had."""
        row, asked = observed.row, obj.spec.gpu.count
        gpus = asked if row.gpu_count_per_replica is None else row.gpu_count_per_replica
        return Capacity(row.gpu_model_id or "", gpus, replicas=max(obj.spec.replicas.desired, there(row)))

    def untold(self, obj: Serving, observed: Seen) -> Capacity | None:
        """None if the row has the price of a replica and their number, of which the cloud may leave out either."""
        asked, replicas = self.grown(obj, observed), observed.row.replicas_desired
        if replicas is None:
            return asked
        return None if observed.row.price_per_hour_cents is not None else replace(asked, replicas=replicas)

    def locked(self, observed: Seen) -> int | None:
        return observed.row.price_per_hour_cents

    def immutable(self, obj: Serving) -> Mapping[str, JsonValue]:
        return {**lasting(obj.spec), **settings(obj.spec), "env": env_as_written(obj.spec.env)}

    def differences(self, obj: Serving, observed: Seen) -> tuple[str, ...]:
        """Includes what the replicas run, unless they may be replaced in place, and fields taken out of the spec."""
        created_with = digests(obj.status.spec_hash or "")
        return lasting_differences(obj.spec, observed.row) + taken_out(obj.spec, observed.row, created_with)

    def changes(self, obj: Serving, observed: Seen, *, running: bool) -> tuple[Change, ...]:
        """All changes in one request.

        A green deployment gets its weight and its promotion once it runs; a stopped deployment starts by scaling.
        """
        spec, row = obj.spec, observed.row
        differs = changed(spec, row)
        if row.status == DeploymentStatus.STOPPED:
            differs["replicasDesired"] = spec.replicas.desired
        if row.rollout_role == Role.GREEN and self.progress(observed) is not Progress.READY:
            differs = {name: value for name, value in differs.items() if name not in OF_A_RUNNING_GREEN}
        if not differs:
            return ()
        body, operation = DeploymentChange.model_validate(differs), operations.CHANGE_DEPLOYMENT

        async def send(cloud: Cloud) -> None:
            require_within(spec, operation.name)
            await cloud.call(operation, body, id=row.id)

        name = "scale" if differs.keys() <= REPLICAS else "promote" if "rolloutRole" in differs else "update"
        reason = Reason.SCALING if name == "scale" else Reason.UPDATING
        grows = "replicasDesired" in differs and spec.replicas.desired > there(row) and is_within(spec)
        return (Change(name, reason, send, to=body.model_dump_json(exclude_none=True), pays=grows),)

    def progress(self, observed: Seen) -> Progress:
        row = observed.row
        if row.status in {DeploymentStatus.RUNNING, DeploymentStatus.IDLE}:
            whole = (row.replicas_ready or 0) >= (row.replicas_desired or 0)
            return Progress.READY if whole else Progress.PENDING
        return _PROGRESS.get(row.status, Progress.PENDING)

    def identity(self, observed: Seen) -> tuple[str, str]:
        return observed.row.id, ""

    def detail(self, observed: Seen) -> str:
        row = observed.row
        return said(row.status, row.replicas_ready, row.replicas_desired or 0, row.status_reason)

    def told(self, obj: Serving, observed: Seen) -> Mapping[str, object]:
        row, price, replicas = observed.row, observed.row.price_per_hour_cents, observed.row.replicas_desired
        gpus = obj.spec.gpu.count if says(obj, "gpu") else obj.status.gpu_count
        # Without a price or the number of replicas, the last one stays until the catalog's is known.
        paid = {} if price is None or replicas is None else {"price_per_hour_cents": price * replicas}
        return paid | {
            "state": row.status,
            "status_reason": row.status_reason,
            "replicas": len(row.replicas),
            "desired_replicas": replicas,
            "ready_replicas": row.replicas_ready,
            "selector": selector("deployment", obj.metadata),
            "gpu_model_id": row.gpu_model_id,
            "gpu_count": gpus if row.gpu_count_per_replica is None else row.gpu_count_per_replica,
            "backend_weight": row.backend_weight,
            "rollout_role": row.rollout_role,
            "lane": lanes.shown(observed.lane),
            "traffic_percent": lanes.share(row, observed.lane),
        }


async def _listed(cloud: Cloud) -> Mapping[str, Deployment]:
    """All deployments of the organization, by id.

    Raises NotServed if the cloud has no such list, and Unreadable if the list does not end.
    """
    operation = operations.LIST_DEPLOYMENTS
    try:
        found = await items_of(cloud, operation, limit=200)
    except NotFound as error:
        raise NotServed(operation.name, f"{NO_LIST} ({clause(error.message)})", status=error.status) from error
    return {row.id: row for row in found}
