"""What tests of serving deployments do over and over, in the words of the specification."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.localcloud.support.inference import CHAT, call, chat
from tests.localcloud.support.modelserver import ModelServer
from tests.localcloud.support.workloads import UNTIL_RUNNING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.localcloud.support.server import Answer, Organization

DEPLOYMENTS = "/v1/serving/deployments"
BACKENDS = "/v1/inference/models/{model}/backends"


def wanted(organization: Organization, **more: object) -> dict[str, Any]:
    """A body with every required field: one replica of one GPU behind `echo`, on standby."""
    return {
        "organizationId": organization.id,
        "publicModelId": "echo",
        "engine": "vllm",
        "servedModelId": "echo",
        "gpuModelId": "h100",
        "gpuCountPerReplica": 1,
        "replicasMin": 0,
        "replicasMax": 8,
        "replicasDesired": 1,
        **more,
    }


async def create(organization: Organization, **more: object) -> Any:
    """A deployment that was just made, which is answered as it is read."""
    made = await organization.ok("POST", DEPLOYMENTS, wanted(organization, **more))
    assert made == await get(organization, made["id"])
    return made


async def try_create(organization: Organization, **more: object) -> Answer:
    """The answer to a create, whatever it is."""
    return await organization.call("POST", DEPLOYMENTS, wanted(organization, **more))


async def running(organization: Organization, **more: object) -> str:
    """The id of a deployment all of whose replicas are healthy."""
    made = await create(organization, **more)
    await organization.server.advance(UNTIL_RUNNING)
    assert await status(organization, made["id"]) == "running"
    return str(made["id"])


async def get(organization: Organization, deployment_id: str) -> Any:
    """The deployment."""
    return await organization.ok("GET", f"{DEPLOYMENTS}/{deployment_id}")


async def status(organization: Organization, deployment_id: str) -> str:
    """Its status, `gone` where it is 404."""
    answer = await organization.call("GET", f"{DEPLOYMENTS}/{deployment_id}")
    if answer.status == 404:
        assert answer.refusal == (404, "not_found")
        return "gone"
    return str(answer.body["status"])


async def change(organization: Organization, deployment_id: str, **changes: object) -> Any:
    """The deployment after a change that must succeed, which is answered as it is read."""
    answered = await organization.ok("PATCH", f"{DEPLOYMENTS}/{deployment_id}", changes)
    assert answered == await get(organization, deployment_id)
    return answered


async def try_change(organization: Organization, deployment_id: str, **changes: object) -> Answer:
    """The answer to a change, whatever it is."""
    return await organization.call("PATCH", f"{DEPLOYMENTS}/{deployment_id}", changes)


async def delete(organization: Organization, deployment_id: str) -> None:
    """Let it drain."""
    assert (await organization.call("DELETE", f"{DEPLOYMENTS}/{deployment_id}")).status == 204


async def own_model(organization: Organization, model: str = "own") -> str:
    """A model of the organization's own, whose backend is taken away again once a deployment needs it no more."""
    body = {
        "provider": "openai_compatible",
        "ref": model,
        "endpoint": "http://127.0.0.1:9/v1",
        "nativeFamilies": ["chat_completions"],
    }
    made = await organization.ok("POST", BACKENDS.format(model=model), body)
    return f"{BACKENDS.format(model=model)}/{made['id']}"


async def answered_by(organization: Organization, content: str = "hello", model: str = "echo") -> str | None:
    """The deployment that answers a chat; None where something else does."""
    answer = await call(organization, "POST", CHAT, chat(content, model))
    assert answer.status == 200, answer.raw
    return answer.headers.get("x-relay-deployment")


@asynccontextmanager
async def upstream(organization: Organization, image: str, **more: Any) -> AsyncIterator[ModelServer]:
    """A server that stands for the replicas of an engine image."""
    async with ModelServer(**more) as behind:
        await organization.server.ok("POST", "/upstreams", {"image": image, "url": behind.url.removesuffix("/v1")})
        yield behind
        await organization.server.ok("DELETE", f"/upstreams?image={image}")
