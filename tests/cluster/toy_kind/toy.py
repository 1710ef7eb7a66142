"""A toy: replicas of a container, and as little as a kind can say of them."""

from typing import Literal, TypeAlias

from pydantic import Field, JsonValue

from relay_client import Cloud, listing, operations
from relay_operator.api.conditions import Reason
from relay_operator.api.definition import AGE, READY, Definition
from relay_operator.api.meta import CreateIntent, Resource
from relay_operator.api.workload import ManagedSpec, ManagedStatus
from relay_operator.engine.kind import Kind
from relay_operator.engine.unclaimed_ids import UnclaimedIds
from relay_operator.flows.managed.resource import Change, ExternalResource, Found, Inputs, Look, NotSeen, Progress
from relay_operator.flows.wiring import managed
from relay_wire.clusters import ClusterCreate, ClusterScale, ClusterSummary


class ToySpec(ManagedSpec):
    image: str = Field(max_length=256, description="Container image.")
    replicas: int = Field(1, ge=1, le=10, description="How many.")


class Toy(Resource[ToySpec, ManagedStatus]):
    kind: Literal["Toy"] = "Toy"
    status: ManagedStatus = Field(default_factory=ManagedStatus)


Obj: TypeAlias = Resource[ToySpec, ManagedStatus]
_PROGRESS = {"running": Progress.READY, "terminated": Progress.GONE}


class Toys(ExternalResource[ToySpec, ManagedStatus, ClusterSummary]):
    definition = Definition("Toy", "toys", "toy", ToySpec, ManagedStatus, (READY, AGE), "Replicas of a container.")
    model = Toy

    async def observe(self, cloud: Cloud, cloud_id: str, last: ManagedStatus, look: Look) -> ClusterSummary:
        return await cloud.call(operations.GET_CLUSTER, id=cloud_id)

    async def find(self, cloud: Cloud, name: str, unclaimed: UnclaimedIds) -> Found[ClusterSummary] | NotSeen:
        clusters = await listing(cloud, operations.LIST_CLUSTERS)
        return next((Found(cluster) for cluster in clusters.items if cluster.name == name), NotSeen())

    async def create(self, cloud: Cloud, obj: Obj, intent: CreateIntent, inputs: Inputs) -> ClusterSummary:
        body = ClusterCreate(name=intent.name, image_url=obj.spec.image, replica_count=obj.spec.replicas)
        made = await cloud.call(operations.CREATE_CLUSTER, body)
        return ClusterSummary(id=made.id, organization_id="", name=intent.name, status=made.status)

    async def delete(self, cloud: Cloud, cloud_id: str) -> None:
        await cloud.call(operations.TERMINATE_CLUSTER, id=cloud_id)

    def immutable(self, obj: Obj) -> dict[str, JsonValue]:
        return {"image": obj.spec.image}

    def changes(self, obj: Obj, observed: ClusterSummary, *, running: bool) -> tuple[Change, ...]:
        body = ClusterScale(replica_count=obj.spec.replicas)
        if observed.replica_count in {None, body.replica_count} or observed.status != "running":
            return ()

        async def send(cloud: Cloud) -> None:
            await cloud.call(operations.SCALE_CLUSTER, body, id=observed.id)

        return (Change("scale", Reason.SCALING, send, to=str(body.replica_count)),)

    def progress(self, observed: ClusterSummary) -> Progress:
        return _PROGRESS.get(observed.status, Progress.PENDING)

    def identity(self, observed: ClusterSummary) -> tuple[str, str]:
        return observed.id, observed.name

    def detail(self, observed: ClusterSummary) -> str:
        return f"the cloud says {observed.status}"

    def told(self, obj: Obj, observed: ClusterSummary) -> dict[str, object]:
        return {"state": observed.status}


KIND = Kind(Toys.definition, managed(lambda _: Toys()))
