"""The ground of a plan with a batch: its records, its model, its bucket, and the checks of its output."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.cluster.batch_model import FailingModel
from tests.cluster.batch_side import (
    Json,
    batch,
    batches_in_cloud,
    by_custom_id,
    complete,
    content_of,
    files_in_cloud,
    jsonl,
    put_prompts,
)
from tests.faults.batch_scenarios import BATCHES, TOKENS, BatchScenario
from tests.faults.ground import Ground
from tests.faults.oracles import Spent
from tests.faults.scenarios import ENV_KEY, ENV_SECRET
from tests.support.eventually import eventually
from tests.support.faultrules import Side
from tests.support.manifests import tells

if TYPE_CHECKING:
    from tests.faults.ground import Site
    from tests.support.kube import Kube, Manifest
    from tests.support.s3 import S3Server

_OVER = frozenset({"completed", "failed", "cancelled", "expired"})
_CREDENTIALS = "bucket"
_PART = "gpurelay.dev/part"
_FIRST_PARTS = 2


@dataclass(frozen=True)
class BatchGround(Ground):
    """The surroundings of one batch. The canary authorizes tool calls; a second one is the bucket's secret key."""

    scenario: BatchScenario
    model: FailingModel = field(default_factory=FailingModel)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def of(cls, kube: Kube, site: Site, name: str) -> Self:
        """Creates the records, the model, and the bucket or ConfigMap."""
        scenario = BATCHES[name]
        ground = await cls.prepare(kube, site, name, scenario)
        ground.model.failing = scenario.failing()
        ground.model.gate = ground.gate if scenario.suspended else None
        ground.model.tokens = TOKENS
        await ground.model.serve(ground.workspace)
        if scenario.in_bucket:
            await ground._put_into_the_bucket()
        else:
            await put_prompts(ground.workspace, scenario.records())
        return ground

    @property
    def secrets(self) -> int:
        """One more with a bucket."""
        return super().secrets + self.scenario.in_bucket

    @property
    def lives_by_webhooks(self) -> bool:
        """False: the cloud sends no webhooks about batches."""
        return False

    async def apply_object(self) -> None:
        """Applies the batch; suspends and resumes it if the scenario says so."""
        places: Json = {}
        if self.scenario.in_bucket:
            credentials = {"credentialsSecretRef": {"name": _CREDENTIALS}}
            url = f"s3://{self.namespace}"
            places = {
                "input": {"url": f"{url}/in.jsonl", **credentials},
                "output": {"url": f"{url}/out", **credentials},
            }
        tools = {
            "url": "https://tools.example.com/run",
            "authorizationSecretRef": {"name": ENV_SECRET, "key": ENV_KEY},
        }
        spec: Json = {"model": self.model.name, "toolConfig": tools, "retryPolicy": {"backoffSeconds": 1}}
        await self.workspace.apply(batch(self.scenario.object, **spec, **places))
        if self.scenario.suspended:
            await self._suspend_and_resume()

    async def _suspend_and_resume(self) -> None:
        """Suspends the batch with records under way, which are answered only while it is cancelled, and resumes it."""

        async def under_way() -> bool:
            return len(self.model.asked) == _FIRST_PARTS

        async def cancelling() -> bool:
            return {each["status"] for each in await batches_in_cloud(self.workspace)} == {"cancelling"}

        kind, name = self.scenario.kind.name, self.scenario.object
        await eventually(under_way, what="a record of each part is under way")
        await self.kube.patch(kind, name, {"spec": {"suspend": True}})
        await eventually(cancelling, what="all of it is being cancelled")
        self.gate.set()
        await eventually(self.found, tells("Suspended"), what="the batch is suspended")
        await self.kube.patch(kind, name, {"spec": {"suspend": False}})

    async def settled(self) -> bool:
        """Whether the batch is Complete and the account Ready."""
        return complete(await self.found()) and await self.account_ready()

    async def spent(self) -> Spent:
        """Returns what the cloud did; every batch in the cloud counts as paid for."""
        log = await self.workspace.cloud.control.requests(organization=self.workspace.organization)
        created = sum(one["operation"] == self.scenario.kind.create and one["status"] == 200 for one in log)
        made = await batches_in_cloud(self.workspace)
        alive = tuple(sorted(each["id"] for each in made if each["status"] not in _OVER))
        return Spent(created, tuple(sorted(each["id"] for each in made)), alive)

    async def verify(self) -> None:
        """Asserts one line per record, counts and cost as in status, and no file left in the cloud."""
        status = (await self.found() or {})["status"]
        answers, errors = await self._published()
        asked = {each["custom_id"] for each in self.scenario.records()}
        assert answers.keys() | errors.keys() == asked
        told = {"total": len(asked), "completed": len(answers), "failed": len(errors)}
        assert status["requestCounts"] == told, f"status says {status['requestCounts']}, the output has {told}"
        assert status["output"]["lines"] == len(answers) + len(errors)
        assert status["usage"]["costNanoUsd"] == (await self._bill())["nanoUsd"]
        left = await files_in_cloud(self.workspace)
        assert not left, f"files are left in the cloud: {left}"

    async def verify_the_past(self) -> None:
        """Asserts that no part was ever paid for twice."""
        doubled = {tag: times for tag, times in Counter(await self._tags()).items() if times > 1}
        assert not doubled, f"more than one batch for a part: {doubled}"

    async def results(self) -> dict[str, object]:
        """Returns what was published, what it cost, and what the model was asked."""
        answers, errors = await self._published()
        return {
            "answers": {custom_id: content_of(line) for custom_id, line in sorted(answers.items())},
            "errors": {custom_id: line["response"]["status_code"] for custom_id, line in sorted(errors.items())},
            "parts": sorted(tag.partition("/")[2] for tag in await self._tags()),
            "bill": await self._bill(),
            "asked": sorted(self.model.asked),
        }

    async def statuses(self) -> dict[str, Any]:
        """Replaces the bucket's name, which is that of the namespace and differs in each run."""
        text = json.dumps(await super().statuses())
        statuses: dict[str, Any] = json.loads(text.replace(self.namespace, "bucket"))
        return statuses

    async def exposed(self) -> dict[str, str]:
        """Adds what was published to the bucket."""
        texts = await self._texts() if self.scenario.in_bucket else ("", "")
        return {**await super().exposed(), "the bucket": "".join(texts)}

    async def close(self) -> None:
        """Ends the model, too."""
        await self.model.__aexit__(None, None, None)
        await super().close()

    @property
    def _store(self) -> S3Server:
        assert self.site.store is not None, "this scenario needs a stage with a store"
        return self.site.store

    async def _put_into_the_bucket(self) -> None:
        await self._store.create_bucket(self.namespace)
        await self._store.put(self.namespace, "in.jsonl", jsonl(self.scenario.records()).encode())
        data = self._store.secret(AWS_ENDPOINT_URL=self.site.urls[Side.STORE])
        secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _CREDENTIALS}}
        await self.kube.create({**secret, "stringData": data})

    async def _published(self) -> tuple[dict[str, Json], dict[str, Json]]:
        """Returns answers and errors by custom id; raises AssertionError if a record has both."""
        answers, errors = map(by_custom_id, await self._texts())
        assert not answers.keys() & errors.keys(), "a record has an answer and an error"
        return answers, errors

    async def _texts(self) -> tuple[str, str]:
        if self.scenario.in_bucket:
            keys = ("out/output.jsonl", "out/errors.jsonl")
            answers, errors = [(await self._store.get(self.namespace, key)).decode() for key in keys]
            return answers, errors
        data = (await self.kube.get("ConfigMap", "answers"))["data"]
        return data["output.jsonl"], data["errors.jsonl"]

    async def _tags(self) -> list[str]:
        """Returns token, round and part of every batch in the cloud."""
        tags = [each["metadata"][_PART] for each in await batches_in_cloud(self.workspace)]
        return ["/".join(tag.split("/")[:3]) for tag in tags]

    async def _bill(self) -> dict[str, Any]:
        organization = self.workspace.organization
        balance = await organization.call("GET", f"/v1/orgs/{organization.id}/billing/balance")
        usage = [each["usage"] for each in await batches_in_cloud(self.workspace)]
        cost = sum(each["cost_nano_usd"] for each in usage if each)
        return {"nanoUsd": cost, "balanceCents": balance["balanceCents"]}
