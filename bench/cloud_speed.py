"""The speed at which the local cloud alone processes the records of a batch, over plain HTTP."""

import asyncio
import time
from dataclasses import dataclass

import aiohttp

from bench.records import EXPECTED, Shape, requests
from bench.usage import Meter, Spent
from tests.support.localcloud import LocalCloud, Organization

WITHIN = 300.0


@dataclass(frozen=True, slots=True)
class Speed:
    """The measurement of a batch from creation to end, including validation and finalization."""

    records: int
    seconds: float
    spent: Spent

    @property
    def records_a_cpu_second(self) -> float:
        """Records per CPU second."""
        return self.records / self.spent.cpu


async def cloud_speed(cloud: LocalCloud, organization: Organization, shape: Shape) -> Speed:
    """Runs one batch with the cloud's built-in answers. Raises TimeoutError after `WITHIN` seconds."""
    headers = {"Authorization": f"Bearer {organization.api_key}"}
    async with aiohttp.ClientSession(cloud.inference_url, headers=headers, raise_for_status=True) as session:
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", b"".join(requests(shape)), filename="input.jsonl")
        async with session.post("/v1/files", data=form) as reply:
            file = await reply.json()
        meter, started = Meter(cloud.process.pid), time.monotonic()
        order = {"input_file_id": file["id"], "endpoint": EXPECTED.endpoint, "completion_window": "24h"}
        async with session.post("/v1/batches", json=order) as reply:
            batch = await reply.json()
        async with asyncio.timeout(WITHIN):
            while batch["status"] not in {"completed", "failed"}:
                await asyncio.sleep(0.2)
                async with session.get(f"/v1/batches/{batch['id']}") as reply:
                    batch = await reply.json()
        assert batch["request_counts"]["completed"] == shape.records
        return Speed(shape.records, time.monotonic() - started, meter.spent())
