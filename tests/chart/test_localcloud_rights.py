"""What the local cloud's ServiceAccount may do on a real API server, with its rights and admission policies in force.

It reads Nodes and Pods everywhere, cordons Nodes, makes namespaces of organizations, and gives itself rights in these
alone.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.support import chart
from tests.support.chart import LOCALCLOUD
from tests.support.eventually import eventually
from tests.support.kube import Kube, KubeError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.controlplane import Cluster
    from tests.support.kube import Manifest

NAMESPACE = "relay-rights"
ROLE = f"{NAMESPACE}-relay-localcloud-organization"
ITSELF = {"kind": "ServiceAccount", "name": "relay-localcloud", "namespace": NAMESPACE}
TEAM = "relay-rights-team"
RUNTIME = (
    "runtimeConfig.clusters[0].name=here",
    "runtimeConfig.gpuModels[0].id=h100",
    "runtimeConfig.gpuModels[0].nodeLabels.gpu=h100",
    "runtimeConfig.gpuModels[0].pricePerHourCents=249",
    "runtimeConfig.vmImages.ubuntu=docker://quay.io/containerdisks/ubuntu:24.04",
)
MERGE = "application/merge-patch+json"
FORBIDDEN = "is forbidden: User"
"""What the API server says to whom RBAC does not let."""


def namespace(name: str, level: str = "baseline") -> Manifest:
    labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def binding(name: str, where: str, role: str = ROLE, *subjects: Manifest) -> Manifest:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": where},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": list(subjects or (ITSELF,)),
    }


def path(kind: str, where: str, name: str = "") -> str:
    root = "/apis/networking.k8s.io/v1" if kind == "networkpolicies" else "/api/v1"
    return f"{root}/namespaces/{where}/{kind}" + (f"/{name}" if name else "")


NEEDED: dict[str, Manifest] = {
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    },
    "secrets": {"stringData": {"env-0": "1"}},
    "resourcequotas": {"spec": {"hard": {"requests.nvidia.com/gpu": "16"}}},
    "networkpolicies": {"spec": {"podSelector": {}, "policyTypes": ["Ingress"]}},
    "pods": {"spec": {"containers": [{"name": "main", "image": "app:1"}], "automountServiceAccountToken": False}},
}
"""What the runtime makes for an organization, by kind."""


async def refused(kube: Kube, method: str, where: str, body: object = None) -> str:
    """What it is told; fails if it is let."""
    kind = {"content_type": MERGE} if method == "PATCH" else {}
    with pytest.raises(KubeError) as error:
        await kube.call(method, where, body, params={"dryRun": "All"} if method != "GET" else None, **kind)
    return error.value.message


@pytest_asyncio.fixture
async def admin(cluster: Cluster) -> AsyncIterator[Kube]:
    """The administrator's."""
    async with Kube(cluster.kubeconfig, TEAM) as kube:
        yield kube


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clouds_kubeconfig(cluster: Cluster) -> Path:
    """Acts as the chart's ServiceAccount, whose policies are in force; a team has a Secret there."""
    async with Kube(cluster.kubeconfig, TEAM) as admin:
        await admin.apply(namespace(TEAM))
        await admin.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"a": "b"}})
    kubeconfig = await chart.grant_access(cluster, NAMESPACE, *RUNTIME, chart=LOCALCLOUD)
    async with Kube(kubeconfig, TEAM) as kube:
        for where, body in (("/api/v1/namespaces", namespace("elsewhere")), (bindings(TEAM), binding("x", TEAM))):
            await eventually(partial(is_denied, kube, where, body), what="the policy is in force")
    return kubeconfig


@pytest_asyncio.fixture
async def cloud_itself(clouds_kubeconfig: Path) -> AsyncIterator[Kube]:
    """The API server as the chart's ServiceAccount."""
    async with Kube(clouds_kubeconfig, TEAM) as kube:
        yield kube


@pytest_asyncio.fixture
async def organization(admin: Kube, cloud_itself: Kube) -> AsyncIterator[str]:
    """A namespace that the cloud made for one."""
    name = f"relay-org-{secrets.token_hex(4)}"
    await cloud_itself.call("POST", "/api/v1/namespaces", namespace(name))
    yield name
    await admin.delete("Namespace", name)


async def is_denied(kube: Kube, where: str, body: Manifest) -> bool:
    try:
        await kube.call("POST", where, body, params={"dryRun": "All"})
    except KubeError as error:
        return "relay-localcloud" in error.message and "denied request" in error.message
    return False


def bindings(where: str) -> str:
    return f"/apis/rbac.authorization.k8s.io/v1/namespaces/{where}/rolebindings"


async def test_it_reads_nodes_pods_and_events_everywhere_and_no_secret_anywhere(cloud_itself: Kube) -> None:
    for kind in ("nodes", "pods", "events"):
        await cloud_itself.call("GET", f"/api/v1/{kind}", params={"limit": "1"})
    assert FORBIDDEN in await refused(cloud_itself, "GET", "/api/v1/secrets")
    assert FORBIDDEN in await refused(cloud_itself, "GET", path("secrets", TEAM))
    assert FORBIDDEN in await refused(cloud_itself, "GET", path("secrets", TEAM, "key"))
    assert FORBIDDEN in await refused(cloud_itself, "GET", path("configmaps", TEAM))


async def test_it_does_nothing_in_namespaces_of_others(cloud_itself: Kube) -> None:
    for kind, body in NEEDED.items():
        named = {**body, "metadata": {"name": "x"}}
        assert FORBIDDEN in await refused(cloud_itself, "POST", path(kind, TEAM), named), kind
        assert FORBIDDEN in await refused(cloud_itself, "DELETE", path(kind, TEAM, "key")), kind
        assert FORBIDDEN in await refused(cloud_itself, "DELETE", path(kind, TEAM)), kind
    assert FORBIDDEN in await refused(cloud_itself, "DELETE", f"/api/v1/namespaces/{TEAM}")
    assert FORBIDDEN in await refused(cloud_itself, "POST", "/api/v1/nodes", {"metadata": {"name": "x"}})


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (namespace("kube-relay"), "whose names begin with relay-org-"),
        (namespace("relay-orgs"), "whose names begin with relay-org-"),
        (namespace("relay-org-1a", ""), "Pod security standard baseline"),
        (namespace("relay-org-1a", "privileged"), "Pod security standard baseline"),
    ],
)
async def test_it_makes_namespaces_of_organizations_alone(cloud_itself: Kube, made: Manifest, says: str) -> None:
    assert says in await refused(cloud_itself, "POST", "/api/v1/namespaces", made)


@pytest.mark.parametrize(
    ("where", "role", "subjects"),
    [
        (TEAM, ROLE, [ITSELF]),
        ("kube-system", ROLE, [ITSELF]),
        ("", "cluster-admin", [ITSELF]),
        ("", "view", [ITSELF]),
        ("", ROLE, [ITSELF, {**ITSELF, "name": "default"}]),
        ("", ROLE, [{**ITSELF, "namespace": TEAM}]),
        ("", ROLE, [{"kind": "User", "name": "relay-localcloud", "apiGroup": "rbac.authorization.k8s.io"}]),
    ],
)
async def test_it_gives_nobody_else_rights_and_itself_none_elsewhere(
    cloud_itself: Kube, organization: str, where: str, role: str, subjects: list[Manifest]
) -> None:
    there = where or organization
    said = await refused(cloud_itself, "POST", bindings(there), binding("x", there, role, *subjects))
    assert "gives itself the rights of" in said or "attempting to grant RBAC permissions not currently held" in said


async def test_in_a_namespace_of_its_own_it_does_what_organizations_need(cloud_itself: Kube, organization: str) -> None:
    await cloud_itself.call("GET", f"/api/v1/namespaces/{organization}")
    for kind, body in NEEDED.items():
        made = {**body, "metadata": {"name": "x"}}
        assert FORBIDDEN in await refused(cloud_itself, "POST", path(kind, organization), made), kind
    await cloud_itself.call("POST", bindings(organization), binding("relay", organization))
    await eventually(partial(makes_all, cloud_itself, organization), what="it makes one of each")
    for kind in ("secrets", "resourcequotas", "networkpolicies"):
        change = {"metadata": {"labels": {"a": "b"}}}
        there = path(kind, organization, "x")
        await cloud_itself.call("PATCH", there, change, content_type=MERGE)
    await eventually(partial(is_labelled, cloud_itself, organization), what="it may change the namespace")
    lax = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    said = await refused(cloud_itself, "PATCH", f"/api/v1/namespaces/{organization}", lax)
    assert "Pod security standard baseline" in said
    assert FORBIDDEN in await refused(cloud_itself, "PATCH", f"/api/v1/namespaces/{TEAM}", lax)
    await cloud_itself.call("GET", f"{path('pods', organization, 'x')}/log")
    assert FORBIDDEN in await refused(cloud_itself, "GET", f"{path('pods', TEAM, 'x')}/log")
    for way in ("exec?command=ls&stdout=true&container=main", "portforward?ports=80"):
        for method in ("GET", "POST"):
            told = await refused(cloud_itself, method, f"{path('pods', organization, 'x')}/{way}")
            assert FORBIDDEN not in told, "the Pod has no kubelet, which is another reason"
            assert FORBIDDEN in await refused(cloud_itself, method, f"{path('pods', TEAM, 'x')}/{way}")
    for there in (
        path("pods", organization, "x"),
        path("secrets", organization),
        path("persistentvolumeclaims", organization),
    ):
        await cloud_itself.call("DELETE", there)
    await cloud_itself.call("DELETE", bindings(organization), params={"fieldSelector": "metadata.name!=relay"})
    assert FORBIDDEN in await refused(cloud_itself, "DELETE", bindings(TEAM))
    assert FORBIDDEN in await refused(cloud_itself, "GET", path("secrets", organization))
    assert FORBIDDEN in await refused(cloud_itself, "DELETE", f"/api/v1/namespaces/{organization}")


OF_VMS = {
    "kubevirt.io/virtualmachines": {"create", "patch", "deletecollection"},
    "cdi.kubevirt.io/volumeimportsources": {"create", "deletecollection"},
    "snapshot.storage.k8s.io/volumesnapshots": {"create", "deletecollection"},
}
"""What the runtime does to what VMs are made of."""


async def test_it_makes_vms_in_namespaces_of_its_own_alone(cloud_itself: Kube, organization: str) -> None:
    await cloud_itself.call("POST", bindings(organization), binding("relay", organization))
    its_own = partial(may, cloud_itself, "kubevirt.io/virtualmachines", organization, {"create"})
    await eventually(its_own, what="its rights are in force")
    every = {"create", "update", "patch", "delete", "deletecollection"}
    for kind, verbs in OF_VMS.items():
        assert await may(cloud_itself, kind, organization, every) == verbs
        assert await may(cloud_itself, kind, TEAM, every) == set()
    for kind in ("kubevirt.io/virtualmachines", "kubevirt.io/virtualmachineinstances", *OF_VMS):
        reads = set() if kind.startswith("cdi") else {"list", "watch"}
        assert await may(cloud_itself, kind, "", {"list", "watch", "create"}) == reads


async def may(kube: Kube, kind: str, where: str, verbs: set[str]) -> set[str]:
    """Those of the verbs that it may use on a kind, in a namespace or in all."""
    group, _, resource = kind.partition("/")
    allowed = set()
    for verb in verbs:
        asked = {"namespace": where, "verb": verb, "group": group, "resource": resource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        said = await kube.call("POST", path, {**review, "spec": {"resourceAttributes": asked}})
        if said["status"]["allowed"]:
            allowed.add(verb)
    return allowed


async def is_labelled(kube: Kube, organization: str) -> bool:
    """Whether it can change labels of the namespace; False while it may not."""
    change = {"metadata": {"labels": {"a": "b"}}}
    try:
        await kube.call("PATCH", f"/api/v1/namespaces/{organization}", change, content_type=MERGE)
    except KubeError as error:
        if error.status == 403:
            return False
        raise
    return True


async def makes_all(kube: Kube, organization: str) -> bool:
    """One of each; False while it may not, or the namespace has no ServiceAccount for Pods yet."""
    for kind, body in NEEDED.items():
        try:
            await kube.call("POST", path(kind, organization), {**body, "metadata": {"name": "x"}})
        except KubeError as error:
            if error.status == 403:
                return False
            if error.status != 409:
                raise
    return True


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"labels": {"team": "b"}}},
        {"metadata": {"labels": {"team": None}}},
        {"metadata": {"annotations": {"other": "b"}}},
        {"metadata": {"annotations": {"other": None}}},
        {"metadata": {"annotations": {"new": ""}}},
        {"metadata": {"finalizers": ["gpurelay.dev/held"]}},
        {"spec": {"taints": [{"key": "gpurelay.dev/held", "effect": "NoExecute"}]}},
        {"spec": {"providerID": "cloud://another"}},
    ],
)
async def test_of_a_node_it_changes_nothing_but_its_cordon(cloud_itself: Kube, node: str, change: Manifest) -> None:
    await eventually(partial(may_only_cordon, cloud_itself, node, change), what="the policy is in force")


async def test_it_cordons_and_uncordons_a_node(cloud_itself: Kube, node: str) -> None:
    for owner, cordoned in (("i-1", True), (None, None)):
        change = {"metadata": {"annotations": {"gpurelay.dev/cordoned-by": owner}}, "spec": {"unschedulable": cordoned}}
        changed = await cloud_itself.call("PATCH", node, change, content_type=MERGE)
        assert changed["spec"].get("unschedulable") == cordoned
        assert changed["metadata"]["annotations"].get("gpurelay.dev/cordoned-by") == owner
    assert FORBIDDEN in await refused(cloud_itself, "DELETE", node)
    assert FORBIDDEN in await refused(
        cloud_itself, "PATCH", f"{node}/status", {"status": {"allocatable": {"a/b": "1"}}}
    )


@pytest_asyncio.fixture
async def node(admin: Kube) -> AsyncIterator[str]:
    """The path of a Node of the cluster's administrator."""
    name = f"relay-rights-{secrets.token_hex(4)}"
    metadata = {"name": name, "labels": {"team": "a"}, "annotations": {"other": "a"}}
    await admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    yield f"/api/v1/nodes/{name}"
    await admin.delete("Node", name)


async def may_only_cordon(kube: Kube, node: str, change: Manifest) -> bool:
    """Whether the policy refuses a change of a Node."""
    try:
        await kube.call("PATCH", node, change, params={"dryRun": "All"}, content_type=MERGE)
    except KubeError as error:
        return "cordons and uncordons Nodes, and changes nothing else" in error.message
    return False
