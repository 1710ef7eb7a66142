"""An organization's namespace, quota and policy are sent once for many Pods, and again if they may be gone."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from relay_kube.errors import KubeError, Refused
from relay_kube.kube import NAMESPACES, SECRETS, Kube
from relay_localcloud.runtimes.kubernetes import tenants
from relay_localcloud.runtimes.kubernetes.holdings import Holding, Standing
from relay_localcloud.runtimes.kubernetes.names import INSTANCE, name_of, namespace_of
from relay_localcloud.runtimes.kubernetes.objects import ROLE_BINDINGS, TENANT_SECONDS, VOLUMES, Objects, VolumeLost
from relay_localcloud.runtimes.kubernetes.situations import Step
from relay_localcloud.runtimes.kubernetes.turns import Turn
from tests.cluster.operators_client import access_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pydantic import JsonValue

    from relay_kube.kube import JsonObject, ResourceType
    from relay_localcloud.runtimes.kubernetes.tenants import Manifest
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
        self.objects = Objects(kube, "i-1", lambda: self.now)
        self.organization_id = f"org_{secrets.token_hex(4)}"
        self.gpus = 8
        self.account: tenants.Account | None = None
        self._numbers = itertools.count()

    async def make(self, name: str = "") -> None:
        """What a container needs; here it is one Secret."""
        holding = Holding(f"pod_{next(self._numbers)}", Standing.RUN, 1, 0, None, ())
        metadata: JsonValue = {"name": name or name_of(holding.id)}
        await self.make_of(holding, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    async def make_of(self, holding: Holding, manifest: Manifest) -> None:
        """What a holder needs, which is this object."""
        namespace, own = namespace_of(self.organization_id), ("i-1", self.organization_id)
        tenant = [
            tenants.namespace(*own, privileged=False),
            *([] if self.account is None else [tenants.role_binding(*own, self.account)]),
            tenants.quota(*own, self.gpus, ["nvidia.com/gpu"]),
            tenants.network_policy(*own, tenants.Gateway()),
        ]
        await self.objects.carry_out(Turn(holding, namespace, "a", Step.MAKE, "", tenant, [manifest]))

    def sent(self) -> list[str]:
        """The kinds since this was last asked."""
        was, self.kube.created = self.kube.created, []
        return was


TENANT = ["namespaces", "resourcequotas", "networkpolicies"]
CLAIM: JsonValue = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


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


async def test_it_is_not_sent_again_after_a_refusal_of_what_one_holder_needs(bench: Bench) -> None:
    await bench.make()
    with pytest.raises(Refused):
        await bench.make("A name that no object has")
    bench.sent()
    await bench.make()
    assert bench.sent() == ["secrets"]


async def test_it_is_sent_again_after_any_other_refusal_since_the_namespace_may_have_been_deleted(bench: Bench) -> None:
    await bench.make()
    await bench.kube.delete(NAMESPACES, None, namespace_of(bench.organization_id))
    with pytest.raises(KubeError):
        await bench.make()
    bench.sent()
    with suppress(KubeError):
        await bench.make()
    assert bench.sent()[0] == "namespaces"


async def test_an_account_that_the_cloud_had_before_has_no_rights_any_more(bench: Bench) -> None:
    namespace = namespace_of(bench.organization_id)
    bench.account = tenants.Account("former", "cloud")
    await bench.make()
    for instance in ("i-1", "another"):
        given = tenants.role_binding(instance, bench.organization_id, tenants.Account(instance, "cloud"))
        await bench.kube.create(ROLE_BINDINGS, namespace, given)
    bench.objects = Objects(bench.kube, "i-1")
    bench.account = tenants.Account("now", "cloud")
    await bench.make()
    found = [item async for page in bench.kube.pages(ROLE_BINDINGS, namespace) for item in page]
    roles = sorted(str(each["roleRef"]["name"]) for each in found if isinstance(each["roleRef"], dict))
    assert roles == ["another-cloud-organization", "now-cloud-organization"]


async def test_what_is_left_of_a_holder_is_deleted_only_if_it_is_this_clouds(bench: Bench) -> None:
    await bench.make("other")
    namespace = namespace_of(bench.organization_id)

    async def put(kind: ResourceType, name: str, instance: str, **fields: JsonValue) -> None:
        metadata: JsonValue = {"name": name, "labels": {INSTANCE: instance}}
        await bench.kube.create(kind, namespace, {"metadata": metadata, **fields})

    async def names(kind: ResourceType) -> list[str]:
        found = [item async for page in bench.kube.pages(kind, namespace) for item in page]
        metadata = [each["metadata"] for each in found]
        return sorted(
            str(each["name"]) for each in metadata if isinstance(each, dict) if "deletionTimestamp" not in each
        )

    await put(SECRETS, "pod-a", "i-1")
    await put(SECRETS, "pod-a-pull", "another")
    await put(VOLUMES, "pod-a", "another", spec=CLAIM)
    await put(VOLUMES, "pod-b", "i-1", spec=CLAIM)
    for holder_id in ("pod_a", "pod_b"):
        ended = Holding(holder_id, Standing.END, 1, 0, None, ())
        for _ in range(2):
            await bench.objects.carry_out(Turn(ended, namespace, name_of(holder_id), Step.SWEEP))
    assert (await names(SECRETS), await names(VOLUMES)) == (["other", "pod-a-pull"], ["pod-a"])


async def test_a_lost_volume_is_not_created_until_its_holder_knows_however_often_it_is_looked_for(bench: Bench) -> None:
    claim: Manifest = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "pod-a"},
        "spec": CLAIM,
    }
    had_pod = Holding("pod_a", Standing.RUN, 1, 0, None, (), had_pod=True)
    for _ in range(2):  # the process was killed before it told the row, say
        with pytest.raises(VolumeLost):
            await bench.make_of(had_pod, claim)
    assert bench.sent() == TENANT
    await bench.make_of(replace(had_pod, had_pod=False), claim)
    await bench.make_of(had_pod, claim)
    assert bench.sent() == ["persistentvolumeclaims"]
