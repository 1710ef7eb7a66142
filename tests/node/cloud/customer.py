"""An organization whose workloads are containers of the node, as its members see them: through API and gateway."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from relay_localcloud.runtimes.kubernetes.names import name_of, namespace_of
from tests.node.cloud.workload_image import IMAGE
from tests.support.eventually import eventually

if TYPE_CHECKING:
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import Organization

Json = dict[str, Any]


@dataclass(frozen=True)
class Customer:
    """The organization, and the port of this machine at which the cloud's gateway is reached."""

    kube: Kube
    team: Organization
    gateway_port: int

    async def is_offered(self, count: int = 1) -> None:
        """Return once so many of the node's GPUs are on sale."""
        await eventually(self._free, lambda free: free >= count, what=f"{count} of the node's GPUs are on sale")

    async def post(self, **fields: Any) -> str:
        """The id of a new pod."""
        body = {"image": IMAGE, "gpuModelId": "h100", "volumeGb": 10, **fields}
        return str((await self.team.call("POST", "/v1/pods", body))["id"])

    async def becomes(self, pod_id: str, status: str, reason: str = "", within: float = 60) -> Json:
        """The record once it has this status, and a reason with these words."""

        def is_so(record: Json) -> bool:
            return record["status"] == status and reason in (record.get("statusReason") or "")

        what = f"{status}: {reason}"
        return await eventually(lambda: self.team.vm(pod_id), is_so, within=within, what=what)

    async def objects(self, kind: str, pod_id: str) -> list[Manifest]:
        """The objects of a kind that the node has for a pod of the cloud."""
        found = await self.kube.list(kind, namespace_of(self.team.id))
        return [each for each in found if each["metadata"]["name"] == name_of(pod_id)]

    async def holds_none(self, kind: str, pod_id: str) -> None:
        """Return once the node has no object of the kind for it."""
        what = f"the {kind} of {pod_id} is gone"
        await eventually(lambda: self.objects(kind, pod_id), lambda found: not found, what=what)

    async def log(self, pod_id: str) -> str:
        """What its container printed since it was last started."""
        headers = {"Authorization": f"Bearer {self.team.api_key}"}
        url = f"{self.team.management_url}/v1/vms/{pod_id}/logs"
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url, headers=headers) as answer:
            return await answer.text()

    async def ask(self, record: Json, method: str, path: str, key: str = "", data: bytes = b"") -> tuple[int, str]:
        """Status and text of what a workload's endpoint answers, through the gateway."""
        host = record["endpointUrl"].partition("://")[2].strip("/")
        headers = {"Host": host, **({"Authorization": f"Bearer {key}"} if key else {})}
        url = f"http://127.0.0.1:{self.gateway_port}{path}"
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(method, url, headers=headers, data=data or None) as answer,
        ):
            return answer.status, await answer.text()

    async def answers(self, record: Json, path: str) -> str:
        """What a workload answers with 200, once it does."""

        async def asked() -> tuple[int, str]:
            return await self.ask(record, "GET", path, self.team.api_key)

        return (await eventually(asked, lambda said: said[0] == 200, what=f"{path} is answered"))[1]

    async def _free(self) -> int:
        items = (await self.team.call("GET", "/v1/pods/capacity"))["items"]
        return int(next((each["freeUnits"] for each in items if each["gpuModelId"] == "h100"), 0))
