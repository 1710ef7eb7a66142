"""What runs keeps the price that was locked at its create, also if the catalog has become cheaper."""

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from pydantic import JsonValue

from relay_operator.api.servingdeployment import ServingDeployment
from relay_operator.flows.managed.funding import Ahead, Funding
from relay_operator.kinds.servingdeployment import Seen, ServingDeployments
from relay_wire.serving import Deployment
from tests.unit.flows.managed.money import subject
from tests.unit.flows.managed.world import NAMESPACE, World

if TYPE_CHECKING:
    from relay_operator.flows.wiring import Parts


@pytest.mark.parametrize(("locked", "cents"), [(None, 800), (199, 800), (300, 1200)])
async def test_each_added_replica_costs_at_least_what_the_others_do(
    world: World, locked: int | None, cents: int
) -> None:
    parts = SimpleNamespace(
        settings=SimpleNamespace(poll_settled_seconds=300.0), engine=SimpleNamespace(clock=world.clock.monotonic)
    )
    funding = Funding(ServingDeployments(cast("Parts", parts)), world.account, world.budgets, world.pricing)
    spec: JsonValue = {
        "publicModelId": "llama",
        "servedModelId": "llama-3",
        "engine": "vllm",
        "gpu": {"modelId": "h100", "count": 1},
        "replicas": {"min": 0, "max": 4, "desired": 4},
        "budget": {"maxPricePerHourCents": 9999},
    }
    obj = ServingDeployment.model_validate({"metadata": {"name": "llm", "namespace": NAMESPACE}, "spec": spec})
    row = {"id": "d-1", "status": "running", "gpuModelId": "h100", "replicasDesired": 2, "pricePerHourCents": locked}
    seen = Seen(Deployment.model_validate(row))
    said = await funding.look(subject(world, obj), None, seen, "", Ahead(pays=True, change="scale"))
    assert said.quote == cents
