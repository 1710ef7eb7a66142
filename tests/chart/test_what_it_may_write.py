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
    from pathlib import Path

    from tests.support.controlplane import Cluster

NAMESPACE = "relay-policies"
TEAM = "relay-policies-team"
"""A namespace that is not the operator's own."""
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


def config_map(name: str, *owners: Manifest, namespace: str = TEAM, **data: str) -> Manifest:
    # Its owner is not there, and nobody is to clear it away meanwhile.
    metadata = {"name": name, "namespace": namespace, "ownerReferences": [*owners], "finalizers": ["example.com/held"]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "before", **data}, "metadata": metadata}


def pod(name: str, **labels: str) -> Manifest:
    spec = {"containers": [{"name": "operator", "image": "relay-operator:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Kube]:
    async with Kube(cluster.kubeconfig, NAMESPACE) as kube:
        yield kube


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def operators_kubeconfig(cluster: Cluster) -> Path:
    """Acts as the chart's ServiceAccount, whose policies are in force."""
    kubeconfig = await chart.grant_access(cluster, NAMESPACE)
    async with Kube(cluster.kubeconfig, NAMESPACE) as admin, Kube(kubeconfig, NAMESPACE) as kube:
        await admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
        for manifest in (pod("probe"), secret("probe"), config_map("probe")):
            await admin.apply(manifest)
            kind, namespace = manifest["kind"], manifest["metadata"].get("namespace")
            change = {"metadata": {"annotations": {"probe": "1"}}}
            look = partial(is_denied, kube, kind, "probe", change, namespace)
            await eventually(look, what="the policy is in force")
    return kubeconfig


@pytest_asyncio.fixture
async def operator_itself(operators_kubeconfig: Path, admin: Kube) -> AsyncIterator[Kube]:
    """The API server as the chart's ServiceAccount."""
    async with Kube(operators_kubeconfig, NAMESPACE) as kube:
        yield kube
    for kind in ("Pod", "Secret"):
        await admin.delete_all(kind)
    for namespace in (NAMESPACE, TEAM):
        for left in await admin.list("ConfigMap", namespace):
            await admin.patch("ConfigMap", left["metadata"]["name"], {"metadata": {"finalizers": None}}, namespace)
        await admin.delete_all("ConfigMap", namespace)


async def is_denied(kube: Kube, kind: str, name: str, change: Manifest, namespace: str | None = None) -> bool:
    try:
        await kube.patch(kind, name, change, namespace)
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


async def test_of_others_config_maps_it_writes_a_batchs_answers_alone(admin: Kube, operator_itself: Kube) -> None:
    await admin.create(config_map("theirs", ANOTHER_OWNER, **{"output.jsonl": "before"}))
    answers = {"output.jsonl": "{}", "errors.jsonl": ""}
    change: Manifest
    for change in (
        {"data": {"key": "after"}},
        {"data": {"key": None}},
        {"data": {**answers, "new": "1"}},
        {"data": None},
        {"binaryData": {"more": encoded("after")["key"]}},
        {"immutable": True},
        {"metadata": {"labels": {"team": "ml"}}},
        {"metadata": {"annotations": {"new": "1"}}},
        {"metadata": {"finalizers": None}},
        {"metadata": {"ownerReferences": [ANOTHER_OWNER, OWNER]}, "data": answers},
    ):
        assert await is_denied(operator_itself, "ConfigMap", "theirs", change, TEAM), change
    with pytest.raises(KubeError, match=DENIED):
        await operator_itself.delete("ConfigMap", "theirs", TEAM)
    noted = {"annotations": {"gpurelay.dev/batch-token": "1", "gpurelay.dev/batch-result": None}}
    await operator_itself.patch("ConfigMap", "theirs", {"data": answers, "metadata": noted}, TEAM)
    await operator_itself.patch("ConfigMap", "theirs", {"metadata": {"ownerReferences": None}}, TEAM)


async def test_config_maps_of_its_own_objects_and_of_its_own_namespace_are_its_to_write_and_delete(
    admin: Kube, operator_itself: Kube
) -> None:
    await operator_itself.create(config_map("ours", OWNER))
    await admin.create(config_map("record", namespace=NAMESPACE))
    for name, namespace in (("ours", TEAM), ("record", NAMESPACE)):
        change = {"data": {"key": "after"}, "metadata": {"labels": {"team": "ml"}}}
        await operator_itself.patch("ConfigMap", name, change, namespace)
        await operator_itself.delete("ConfigMap", name, namespace)
        deleted = await admin.get("ConfigMap", name, namespace)
        assert "deletionTimestamp" in deleted["metadata"]


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
