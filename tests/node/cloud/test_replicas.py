"""Replicas of clusters and of serving deployments are containers of a real node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openai
import pytest

from relay_localcloud.runtimes.kubernetes.names import name_of
from tests.node.cloud.replicas import becomes, has_no_pods, serves
from tests.node.cloud.workload_image import IMAGE
from tests.node.gpus import NEEDS_GPUS

if TYPE_CHECKING:
    from tests.node.cloud.customer import Customer
    from tests.node.cloud.house import House

pytestmark = [pytest.mark.asyncio(loop_scope="session"), NEEDS_GPUS]

Json = dict[str, Any]


async def hosts(customer: Customer, found: Json, count: int) -> set[str]:
    """Who answers so many requests to an endpoint."""
    return {(await customer.answers(found, "/")).partition(" ")[0] for _ in range(count)}


async def test_an_endpoint_has_three_containers_behind_it_and_spares_the_one_that_is_sick(customer: Customer) -> None:
    wanted = {"name": "web", "imageUrl": IMAGE, "gpuModelId": "h100", "gpusPerReplica": 1, "replicaCount": 3}
    checked = {"containerPort": 80, "healthCheckPath": "/health"}
    created = await customer.team.call("POST", f"/v1/orgs/{customer.team.id}/clusters/create", wanted | checked)
    path = f"/v1/clusters/{created['id']}/detail"
    found = await becomes(customer, path, "running", 3)
    everybody = {name_of(each["id"]) for each in found["replicas"]}
    assert await hosts(customer, found, 12) == everybody

    _, sick = await customer.ask(found, "POST", "/sick/60", customer.team.api_key)
    assert sick in everybody
    found = await becomes(customer, path, "degraded", 2)
    assert await hosts(customer, found, 12) == everybody - {sick}
    found = await becomes(customer, path, "running", 3)

    await customer.team.call("POST", f"/v1/clusters/{created['id']}/scale", {"replicaCount": 1})
    await becomes(customer, path, "running", 1)
    await customer.team.call("POST", f"/v1/clusters/{created['id']}/terminate")
    await has_no_pods(customer, created["id"])
    (billed,) = [one for one in await customer.team.billed() if one["resourceId"] == created["id"]]
    assert billed["cents"] > 0


async def test_the_openai_client_is_answered_by_a_container_behind_a_serving_deployment(
    house: House, customer: Customer
) -> None:
    found, path = await serves(customer, 2)
    everybody = {f"from {name_of(each['id'])}" for each in found["replicas"]}
    url = f"http://127.0.0.1:{house.ports.inference}/v1"
    async with openai.AsyncOpenAI(api_key=customer.team.api_key, base_url=url) as client:
        asked = [{"role": "user", "content": "who are you?"}]
        answer = await client.chat.completions.create(model="echo", messages=asked)  # type: ignore[arg-type]
    assert answer.choices[0].message.content in everybody

    await customer.team.call("DELETE", path)
    await has_no_pods(customer, found["id"])
