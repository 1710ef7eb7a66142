"""A namespace's budget holds while leaders are killed and frozen; waiting objects start in order of age."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.conftest import OPERATOR_NAMESPACE
from tests.faults.every_scenario import SCENARIOS
from tests.faults.ground import Ground
from tests.faults.scenarios import CLUSTER
from tests.faults.stage import LEASE
from tests.support.eventually import eventually
from tests.support.faultrules import Side
from tests.support.manifests import SECRET_KEY, api_key_secret, condition, gpu_cluster, ready, relay_object

if TYPE_CHECKING:
    from tests.faults.ground import Site
    from tests.faults.stage import Stage, Stages
    from tests.support.kube import Kube, Manifest
    from tests.support.localcloud import LocalCloud

PRICE = 89
"""Cents per hour of a cluster with one l40s."""
ROOM, CLUSTERS = 6, 50
LIMIT = ROOM * PRICE + PRICE // 2


@dataclass
class Tenants:
    """Clusters of one namespace under two operators; their account's budget allows only some of them."""

    ground: Ground
    stage: Stage
    beyond: int = 0
    """The most cents per hour by which the cloud's burn was seen above the limit."""

    async def apply_account(self) -> None:
        """Applies the account with its budget and waits until it is Ready."""
        ground, name = self.ground, self.ground.namespace
        secret = api_key_secret(ground.organizations[0].api_key, name)
        secret["metadata"]["namespace"] = OPERATOR_NAMESPACE
        await ground.kube.apply(secret)
        account = relay_object(
            "ClusterCloudAccount",
            name,
            baseUrl=ground.site.urls[Side.CLOUD],
            inferenceUrl=ground.site.urls[Side.INFERENCE],
            apiKeySecretRef={"name": name, "key": SECRET_KEY, "namespace": OPERATOR_NAMESPACE},
            allowedNamespaces={},
            budget={"perNamespace": {"maxBurnPerHourCents": LIMIT}},
        )
        await ground.kube.apply(account)
        await eventually(ground.kube.looking_at("ClusterCloudAccount", name), ready, what="the account is Ready")

    async def apply_clusters(self) -> None:
        """Applies all clusters at once."""
        ref = {"kind": "ClusterCloudAccount", "name": self.ground.namespace}
        clusters = [gpu_cluster(f"llm-{number:02}", replicas=1, accountRef=ref) for number in range(CLUSTERS)]
        await asyncio.gather(*map(self.ground.kube.apply, clusters))

    async def clusters(self) -> list[Manifest]:
        """Returns the clusters, oldest first; also updates `beyond` from the cloud's usage."""
        organization = self.ground.organizations[0]
        usage = await organization.call("GET", f"/v1/orgs/{organization.id}/billing/usage")
        self.beyond = max(self.beyond, usage["burnPerHourCents"] - LIMIT)
        found = await self.ground.kube.list(CLUSTER.name)
        return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["uid"]))

    async def as_many_run_as_may(self) -> bool:
        """Whether as many clusters run as the budget allows; asserts that all others wait for it."""
        items = await self.clusters()
        running, waiting = [one for one in items if ready(one)], [one for one in items if not ready(one)]
        assert {condition(one, "Ready").get("reason") for one in waiting} <= {"WaitingForBudget"}
        return len(running) == min(ROOM, len(items))

    async def delete_those_that_run(self) -> None:
        """Deletes the running clusters, which makes room for others."""
        await asyncio.gather(
            *(
                self.ground.kube.delete(CLUSTER.name, one["metadata"]["name"])
                for one in await self.clusters()
                if ready(one)
            )
        )

    async def kill_the_leader(self) -> None:
        """Kills the leader, which the stage restarts."""
        await (await self.stage.leader()).kill()

    async def freeze_the_leader(self) -> None:
        """Freezes the leader until another leads."""
        frozen = await self.stage.leader()
        os.kill(frozen.process.pid, signal.SIGSTOP)
        try:
            await eventually(partial(self.stage.another_leads, frozen), what="another operator leads")
        finally:
            os.kill(frozen.process.pid, signal.SIGCONT)

    async def most_at_once(self) -> int:
        """Returns the most clusters that existed at a time, from the cloud's request log."""
        log = await self.ground.site.cloud.control.requests(organization=self.ground.organizations[0])
        acted = [one for one in log if one["status"] and one["status"] < 300]
        alive = most = 0
        for one in sorted(acted, key=lambda one: str(one["at"])):
            operation = re.sub(r"\{\w+\}", "{id}", str(one["operation"]))
            alive += (operation == CLUSTER.create) - (operation == CLUSTER.terminate)
            most = max(most, alive)
        return most

    async def leave(self) -> None:
        """Deletes everything, the account last."""
        kube = self.ground.kube
        await kube.delete_all(CLUSTER.name)
        await eventually(partial(kube.list, CLUSTER.name), lambda left: not left, what="the clusters are gone")
        name = self.ground.namespace
        await kube.delete("ClusterCloudAccount", name)
        look = kube.looking_at("ClusterCloudAccount", name)
        await eventually(look, lambda left: left is None, what="the account is gone")


@pytest.mark.asyncio(loop_scope="session")
async def test_a_namespaces_limit_holds_while_leaders_die(stages: Stages, fault_cloud: LocalCloud) -> None:
    async def prepare(kube: Kube, site: Site) -> Ground:
        return await Ground.prepare(kube, site, "budgets", SCENARIOS["cluster"])

    async def through(ground: Ground) -> None:
        tenants = Tenants(ground, stage)
        await tenants.apply_account()
        applying = asyncio.create_task(tenants.apply_clusters())
        await tenants.kill_the_leader()
        await tenants.freeze_the_leader()
        await applying
        await eventually(tenants.as_many_run_as_may, what=f"{ROOM} run, and the others wait")
        for turn in (tenants.kill_the_leader, tenants.freeze_the_leader, tenants.kill_the_leader):
            deleting = asyncio.create_task(tenants.delete_those_that_run())
            await turn()
            await deleting
            await eventually(tenants.as_many_run_as_may, what=f"{ROOM} run, and the others wait")
            assert all(ready(one) for one in (await tenants.clusters())[:ROOM]), "not the oldest ones run"
        assert (tenants.beyond, await tenants.most_at_once()) == (0, ROOM)
        await tenants.leave()

    async with stages.stage(fault_cloud, LEASE, replicas=2) as stage:
        await stage.on(prepare, through)
