"""What tests of clusters do over and over, in the words of the specification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.localcloud.support.workloads import UNTIL_RUNNING, usage

if TYPE_CHECKING:
    from tests.localcloud.support.server import Organization


async def create(organization: Organization, **fields: object) -> Any:
    body = {"name": "llm", "gpuModelId": "h100", "imageUrl": "vllm/vllm-openai:latest", **fields}
    return await organization.ok("POST", "/v1/orgs/{org}/clusters/create", body)


async def refused(organization: Organization, **fields: object) -> tuple[int, str]:
    body = {"name": "llm", "gpuModelId": "h100", **fields}
    return (await organization.call("POST", "/v1/orgs/{org}/clusters/create", body)).refusal


async def running(organization: Organization, **fields: object) -> str:
    cluster = await create(organization, **fields)
    await organization.server.advance(UNTIL_RUNNING)
    assert (await summary(organization, cluster["id"]))["status"] == "running"
    return str(cluster["id"])


async def summary(organization: Organization, cluster_id: str) -> Any:
    return await organization.ok("GET", f"/v1/clusters/{cluster_id}")


async def detail(organization: Organization, cluster_id: str) -> Any:
    return await organization.ok("GET", f"/v1/clusters/{cluster_id}/detail")


async def replicas(organization: Organization, cluster_id: str) -> list[Any]:
    shown: list[Any] = (await detail(organization, cluster_id))["replicas"]
    return shown


async def act(organization: Organization, cluster_id: str, action: str, body: object | None = None) -> Any:
    return await organization.ok("POST", f"/v1/clusters/{cluster_id}/{action}", {} if body is None else body)


async def status(organization: Organization, cluster_id: str) -> str:
    return str((await summary(organization, cluster_id))["status"])


async def burn(organization: Organization) -> int:
    return int((await usage(organization))["burnPerHourCents"])
