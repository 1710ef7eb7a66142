"""An organization's namespace, quota and policy are sent once for many Pods, and again if they may be gone."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_kube.kube import Kube, Refused
from relay_localcloud.runtimes.kubernetes import tenants
from relay_localcloud.runtimes.kubernetes.holdings import Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import namespace_of
from relay_localcloud.runtimes.kubernetes.objects import TENANT_SECONDS, Objects
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.turns import Turn
from tests.cluster.operators_client import access_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pydantic import JsonValue

    from relay_kube.kube import JsonObject, ResourceType
    from tests.support.controlplane import Cluster


class Recording(Kube):
    """The API server's client; `created` are the kinds of what it was to create."""

    created: list[str]

    async def create(self, kind: ResourceType, namespace: str | None, body: Mapping[str, JsonValue]) -> JsonObject:
        self.created.append(kind.plural)
        return await super().create(kind, namespace, body)


class Bench:
    """One organization, and a clock."""

    def __init__(self, kube: Recording) -> None:
        self.kube = kube
        self.now = 0.0
        self.objects = Objects(kube, lambda: self.now)
        self.organization_id = f"org_{secrets.token_hex(4)}"
        self.gpus = 8
        self._numbers = itertools.count()

    async def make(self, name: str = "") -> None:
        """What a container needs; here it is one Secret."""
        holding = Holding(f"vm_{next(self._numbers)}", Standing.RUN, 1, 0, None, ())
        namespace, own = namespace_of(self.organization_id), ("i-1", self.organization_id)
        tenant = [
            tenants.namespace(*own, privileged=False),
            tenants.quota(*own, self.gpus, ["nvidia.com/gpu"]),
            tenants.network_policy(*own, tenants.Gateway()),
        ]
        metadata: JsonValue = {"name": name or holding.id.replace("_", "-"), "namespace": namespace}
        secret: dict[str, JsonValue] = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        await self.objects.carry_out(Turn(holding, namespace, "a", Step.MAKE, "", tenant, [secret]))

    def sent(self) -> list[str]:
        """The kinds since this was last asked."""
        was, self.kube.created = self.kube.created, []
        return was


TENANT = ["namespaces", "resourcequotas", "networkpolicies"]


@pytest_asyncio.fixture
async def bench(cluster: Cluster) -> AsyncIterator[Bench]:
    async with access_of(cluster.kubeconfig) as access:
        kube = Recording(access)
        kube.created = []
        yield Bench(kube)


async def test_containers_that_start_together_share_what_their_organization_needs(bench: Bench) -> None:
    await asyncio.gather(bench.make(), bench.make(), bench.make())
    assert bench.sent() == [*TENANT, "secrets", "secrets", "secrets"]
    await bench.make()
    assert bench.sent() == ["secrets"]


async def test_it_is_sent_again_after_a_while_and_once_it_changes(bench: Bench) -> None:
    await bench.make()
    bench.now += TENANT_SECONDS
    bench.sent()
    await bench.make()
    assert bench.sent() == [*TENANT, "secrets"]
    bench.gpus = 4
    await bench.make()
    assert bench.sent() == [*TENANT, "secrets"]


async def test_it_is_sent_again_after_a_refusal_since_the_namespace_may_have_been_deleted(bench: Bench) -> None:
    await bench.make()
    with pytest.raises(Refused):
        await bench.make("A name that no object has")
    bench.sent()
    await bench.make()
    assert bench.sent() == [*TENANT, "secrets"]
