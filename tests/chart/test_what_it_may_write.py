"""The chart's admission policies on a real API server: its ServiceAccount writes what it needs, whatever its rights."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from relay_operator.api.meta import LEADER_LABEL
from tests.support import chart
from tests.support.chart import RELEASE
from tests.support.eventually import eventually
from tests.support.kube import Kube, KubeError, Manifest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.controlplane import Cluster

NAMESPACE = "relay-policies"
OWNER = {"apiVersion": "gpurelay.dev/v1alpha1", "kind": "GpuPod", "name": "trainer", "uid": "1"}
ANOTHER_OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "2"}
TOKEN = {"type": "kubernetes.io/service-account-token"}
OF_DEFAULT = {"annotations": {"kubernetes.io/service-account.name": "default"}}
RELEASE_LABELS = {"app.kubernetes.io/name": RELEASE, "app.kubernetes.io/instance": RELEASE}
DENIED = "relay-operator writes"


def secret(name: str, *owners: Manifest, **more: Any) -> Manifest:
    metadata = {"name": name, "ownerReferences": [*owners], **more.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Secret", "data": encoded("before"), "metadata": metadata, **more}


def encoded(text: str) -> dict[str, str]:
    return {"key": base64.b64encode(text.encode()).decode()}


def pod(name: str, **labels: str) -> Manifest:
    spec = {"containers": [{"name": "operator", "image": "relay-operator:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Kube]:
    async with Kube(cluster.kubeconfig, NAMESPACE) as kube:
        yield kube


@pytest_asyncio.fixture
async def operator_itself(cluster: Cluster, admin: Kube) -> AsyncIterator[Kube]:
    """The API server as the chart's ServiceAccount, once the policies are in force."""
    kubeconfig = await chart.grant_access(cluster, NAMESPACE)
    async with Kube(kubeconfig, NAMESPACE) as kube:
        for name, manifest in (("probe", pod("probe")), ("probe", secret("probe"))):
            await admin.apply(manifest)
            change = {"metadata": {"annotations": {"probe": "1"}}}
            await eventually(partial(is_denied, kube, manifest["kind"], name, change), what="the policy is in force")
        yield kube
    for kind in ("Pod", "Secret"):
        await admin.delete_all(kind)


async def is_denied(kube: Kube, kind: str, name: str, change: Manifest) -> bool:
    try:
        await kube.patch(kind, name, change)
    except KubeError as refused:
        return DENIED in refused.message
    return False


async def test_it_makes_opaque_secrets_of_its_own_objects_alone(operator_itself: Kube) -> None:
    await operator_itself.create(secret("ours", OWNER))
    for refused in (
        secret("unowned"),
        secret("anothers", ANOTHER_OWNER),
        secret("token", OWNER, metadata=OF_DEFAULT, **TOKEN),
        secret("token", metadata=OF_DEFAULT, **TOKEN),
        secret("login", OWNER, type="kubernetes.io/basic-auth", stringData={"username": "x"}),
    ):
        with pytest.raises(KubeError, match=DENIED):
            await operator_itself.create(refused)


async def test_of_others_secrets_it_writes_the_finalizer_alone(admin: Kube, operator_itself: Kube) -> None:
    await admin.create(secret("key", metadata={"labels": {"team": "ml"}}))
    # Its owner is not there, and nobody is to clear it away meanwhile.
    await operator_itself.create(secret("ours", OWNER, metadata={"finalizers": ["example.com/held"]}))
    change: Manifest
    for change in (
        {"data": encoded("after")},
        {"data": None},
        {"immutable": True},
        {"metadata": {"labels": {"team": None}}},
        {"metadata": {"annotations": {"new": "1"}}},
        {"metadata": {"ownerReferences": [OWNER]}},
        {"metadata": {"ownerReferences": [OWNER]}, "data": encoded("after")},
    ):
        assert await is_denied(operator_itself, "Secret", "key", change), change
    for finalizers in (["gpurelay.dev/account.1"], None):
        await operator_itself.patch("Secret", "key", {"metadata": {"finalizers": finalizers}})
    await operator_itself.patch("Secret", "ours", {"data": encoded("after"), "metadata": {"labels": {"team": "ml"}}})
    assert await is_denied(operator_itself, "Secret", "ours", {"metadata": {"ownerReferences": None}})
    await operator_itself.patch("Secret", "ours", {"metadata": {"finalizers": None}})


async def test_of_its_own_pods_it_writes_the_label_of_the_leader_alone(admin: Kube, operator_itself: Kube) -> None:
    container = (await admin.create(pod("mine", **RELEASE_LABELS)))["spec"]["containers"][0]
    await admin.create(pod("neighbour", app="web"))
    leads = {"metadata": {"labels": {LEADER_LABEL: "true"}}}
    assert await is_denied(operator_itself, "Pod", "neighbour", leads)
    change: Manifest
    for change in (
        {"spec": {"containers": [{**container, "image": "evil:1"}]}},
        {"metadata": {"labels": {"app": "web"}}},
        {"metadata": {"labels": {"app.kubernetes.io/name": "web"}}},
        {"metadata": {"labels": {"app.kubernetes.io/name": None}}},
        {"metadata": {"annotations": {"new": "1"}}},
        {"metadata": {"finalizers": ["example.com/held"]}},
        {"metadata": {"ownerReferences": [ANOTHER_OWNER]}},
    ):
        assert await is_denied(operator_itself, "Pod", "mine", change), change
    for labels in ({LEADER_LABEL: "true"}, {LEADER_LABEL: None}):
        patched = await operator_itself.patch("Pod", "mine", {"metadata": {"labels": labels}})
        assert patched["metadata"]["labels"].get(LEADER_LABEL) == labels[LEADER_LABEL]


async def test_others_are_not_bound_by_it(admin: Kube, operator_itself: Kube) -> None:
    await admin.create(secret("key"))
    await admin.patch("Secret", "key", {"data": encoded("after")})
    assert await is_denied(operator_itself, "Secret", "key", {"data": encoded("again")})
