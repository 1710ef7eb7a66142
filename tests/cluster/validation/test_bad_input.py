"""What is out of bounds is refused at apply, in words that say what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.cluster.wording import worded
from tests.support.kube import KubeError
from tests.support.kubectl import Kubectl
from tests.support.manifests import condition, gpu_cluster, gpu_pod, relay_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.kube import Kube, Manifest

SECRET = {"name": "relay-api-key", "key": "api-key"}


def pod(**spec: object) -> Manifest:
    return relay_object("GpuPod", "a", **({"image": "x"} | spec))


def cluster_of(**spec: object) -> Manifest:
    return relay_object("GpuCluster", "a", **({"image": "x", "replicas": 1} | spec))


def account(**spec: object) -> Manifest:
    return relay_object("CloudAccount", "a", **({"apiKeySecretRef": SECRET} | spec))


def shared_account(**spec: object) -> Manifest:
    reference = {"apiKeySecretRef": {**SECRET, "namespace": "relay-system"}, "allowedNamespaces": {}}
    return relay_object("ClusterCloudAccount", "a", **(reference | spec))


def batch(**spec: object) -> Manifest:
    files = {"input": {"fileId": "file-1"}, "output": {"configMapRef": {"name": "answers"}}}
    return relay_object("InferenceBatch", "a", model="llama", endpoint="/v1/chat/completions", **files, **spec)


@dataclass(frozen=True)
class Bad:
    """A manifest, and a part of the sentence that refuses it."""

    manifest: Manifest
    says: str


REFUSED = {
    "no GPU": Bad(pod(gpu={"count": 0}), "gpu.count in body should be greater than or equal to 1"),
    "nine GPUs": Bad(pod(gpu={"count": 9}), "gpu.count in body should be less than or equal to 8"),
    "half a GPU": Bad(pod(gpu={"count": 0.5}), "gpu.count in body must be of type int64"),
    "two ways to name a model": Bad(pod(gpu={"modelId": "a", "modelIds": ["b"]}), "set modelId or modelIds"),
    "no model to choose from": Bad(pod(gpu={"modelIds": []}), "should have at least 1 items"),
    "a volume of 9 GB": Bad(pod(volumeGb=9), "volumeGb in body should be greater than or equal to 10"),
    "a volume of 1025 GB": Bad(pod(volumeGb=1025), "volumeGb in body should be less than or equal to 1024"),
    "no shared memory": Bad(pod(shmSizeGb=0), "shmSizeGb in body should be greater than or equal to 1"),
    "8193 GiB of shared memory": Bad(pod(shmSizeGb=8193), "shmSizeGb in body should be less than or equal to 8192"),
    "interruptible": Bad(pod(computeClass="interruptible"), "leave computeClass out, or set OnDemand"),
    "Interruptible": Bad(pod(computeClass="Interruptible"), "COMPUTE_CLASS_RETIRED"),
    "a private SSH key": Bad(
        pod(sshKeys=["ssh-ed25519 AAAA me", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n"]), "this is a private key"
    ),
    "a private key of PuTTY's": Bad(pod(sshKeys=["PuTTY-User-Key-File-3: ssh-ed25519\n"]), "put in the public one"),
    "an unknown class": Bad(pod(computeClass="cheap"), "computeClass is OnDemand, the only class sold"),
    "port 0": Bad(pod(httpPort=0), "httpPort in body should be greater than or equal to 1"),
    "port 65536": Bad(pod(httpPort=65_536), "httpPort in body should be less than or equal to 65535"),
    "no image": Bad(relay_object("GpuPod", "a"), "spec.image: Required value"),
    "an empty image": Bad(pod(image=""), "spec.image in body should be at least 1 chars long"),
    "an image of two words": Bad(pod(image="a b"), "spec.image in body should match"),
    "a variable without a value": Bad(pod(env=[{"name": "A"}]), "set exactly one of value and valueFrom"),
    "a variable with two values": Bad(
        pod(env=[{"name": "A", "value": "", "valueFrom": {"secretKeyRef": SECRET}}]),
        "exactly one of value and valueFrom",
    ),
    "a variable from two places": Bad(
        pod(env=[{"name": "A", "valueFrom": {"secretKeyRef": SECRET, "configMapKeyRef": SECRET}}]),
        "set exactly one of secretKeyRef and configMapKeyRef",
    ),
    "the same variable twice": Bad(
        pod(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), 'Duplicate value: {"name":"A"}'
    ),
    "a variable name with =": Bad(pod(env=[{"name": "A=B", "value": "1"}]), "env[0].name in body should match"),
    "an environment from nowhere": Bad(pod(envFrom=[{"prefix": "A"}]), "set exactly one of secretRef and configMapRef"),
    "a wait that nothing waits for": Bad(pod(recovery={"afterSeconds": 60}), "set onInterrupted: Recreate too"),
    "a connection to nowhere": Bad(pod(connection={}), "set secret, configMap or both"),
    "a token in a ConfigMap": Bad(
        pod(connection={"configMap": {"name": "a", "keys": {"token": "{{deployToken}}"}}}),
        "it can go into connection.secret, not into connection.configMap",
    ),
    "an unknown placeholder": Bad(
        pod(connection={"secret": {"name": "a", "keys": {"x": "{{password}}"}}}), "a template may name {{endpointUrl}}"
    ),
    "a key of no Secret": Bad(pod(connection={"secret": {"name": "a", "keys": {"a/b": "x"}}}), "keys have 1 to 253"),
    "a label with a space": Bad(pod(connection={"configMap": {"name": "a", "labels": {"a b": "x"}}}), "and match `^("),
    "a long key": Bad(pod(connection={"secret": {"name": "a", "keys": {"a" * 254: "x"}}}), "keys have 1 to 253"),
    "a runtime of a minute and less": Bad(pod(lifetime={"maxRuntimeSeconds": 59}), "greater than or equal to 60"),
    "a strategy that does not exist": Bad(
        pod(updateStrategy={"type": "BlueGreen"}), 'supported values: "Never", "Recreate"'
    ),
    "an account of another kind": Bad(
        pod(accountRef={"kind": "Secret", "name": "a"}), 'supported values: "CloudAccount", "ClusterCloudAccount"'
    ),
    "no replicas": Bad(cluster_of(replicas=0), "a cluster has at least one replica"),
    "too many replicas": Bad(cluster_of(replicas=1001), "spec.replicas in body should be less than or equal to 1000"),
    "a health check without a slash": Bad(
        cluster_of(healthCheckPath="healthz"), "healthCheckPath in body should match"
    ),
    "a cluster's GPUs": Bad(cluster_of(gpu={"count": 0}), "gpu.count in body should be greater than or equal to 1"),
    "an account without a key": Bad(account(apiKeySecretRef=None), "spec.apiKeySecretRef: Required value"),
    "a key of a key": Bad(account(apiKeySecretRef={"name": "a"}), "spec.apiKeySecretRef.key: Required value"),
    "an address of another scheme": Bad(account(baseUrl="file:///etc"), "write http(s)://host[:port][/path]"),
    "an address with a password": Bad(account(baseUrl="https://a:b@c"), "without user name, query or fragment"),
    "a gateway without a port": Bad(account(sshGateway="ssh.example.com"), "spec.sshGateway in body should match"),
    "a recharge below the cloud's least": Bad(
        account(autoRecharge={"enabled": True, "thresholdCents": 0, "amountCents": 999}),
        "greater than or equal to 1000",
    ),
    "a recharge above the cloud's most": Bad(
        account(autoRecharge={"enabled": True, "thresholdCents": 0, "amountCents": 50_001}),
        "less than or equal to 50000",
    ),
    "an organization with a no-break space": Bad(
        account(organization={"name": "Team\u00a0A"}), "leave out line breaks and what cannot be seen"
    ),
    "an organization of nothing": Bad(account(organization={}), "write name, billingEmail, or both"),
    "a billing address that is none": Bad(
        account(organization={"billingEmail": "nobody"}), "billingEmail in body should match"
    ),
    "a standstill": Bad(account(rateLimit={"requestsPerSecond": 0}), "greater than or equal to 1"),
    "a shared key of no namespace": Bad(
        shared_account(apiKeySecretRef=SECRET), "spec.apiKeySecretRef.namespace: Required value"
    ),
    "a shared account for nobody in particular": Bad(
        shared_account(allowedNamespaces=None), "spec.allowedNamespaces: Required value"
    ),
    "a shared account for a kind that uses none": Bad(
        shared_account(allowedKinds=["GpuPod", "CloudAccount"]),
        'spec.allowedKinds[1]: Unsupported value: "CloudAccount"',
    ),
    "a selector that compares with nothing": Bad(
        shared_account(allowedNamespaces={"matchExpressions": [{"key": "team", "operator": "In"}]}),
        "In and NotIn need values",
    ),
    "a selector of a label that cannot be": Bad(
        shared_account(allowedNamespaces={"matchLabels": {"-": "a"}}), "matchLabels: Invalid value"
    ),
    "a long key of a batch's metadata": Bad(batch(metadata={"a" * 65: "x"}), "keys have at most 64 characters"),
}


@pytest.mark.parametrize("bad", REFUSED.values(), ids=REFUSED.keys())
async def test_a_manifest_out_of_bounds_is_refused_with_a_sentence(kube: Kube, bad: Bad) -> None:
    with pytest.raises(KubeError) as refused:
        await kube.create(bad.manifest, dry_run=True)
    assert refused.value.status == 422
    assert bad.says in worded(refused.value.message)


async def test_what_is_at_the_bounds_is_accepted(kube: Kube) -> None:
    least = pod(gpu={"count": 1}, volumeGb=10, shmSizeGb=1, httpPort=1)
    most = pod(gpu={"count": 8}, volumeGb=1024, shmSizeGb=8192, httpPort=65_535, computeClass="Reserved")
    for manifest in (least, most):
        await kube.create(manifest, dry_run=True)


@pytest.mark.parametrize(
    ("name", "says"),
    [("A", "a lowercase RFC 1123 subdomain"), ("a" * 254, "must be no more than 253 characters")],
    ids=["capital letters", "too long"],
)
async def test_a_name_over_its_limit_is_refused(kube: Kube, name: str, says: str) -> None:
    with pytest.raises(KubeError, match=says):
        await kube.create({**pod(), "metadata": {"name": name}}, dry_run=True)


async def test_null_is_the_same_as_absent(kube: Kube) -> None:
    created = await kube.create(pod(gpu={"modelId": "h100", "count": None}, env=None), dry_run=True)
    assert created["spec"] == {"image": "x", "gpu": {"modelId": "h100"}}


@pytest.mark.parametrize(
    "manifest",
    [{**pod(), "spec": {"image": "x", "colour": "red"}}, {**pod(), "spec": {"image": "x", "gpu": {"modelID": "h100"}}}],
    ids=["an unknown field", "a misspelt field"],
)
async def test_kubectl_apply_refuses_unknown_fields(kube: Kube, manifest: Manifest) -> None:
    kubectl = Kubectl(kube.kubeconfig, kube.namespace)
    ran = await kubectl.attempt("apply", "--filename=-", stdin=json.dumps(manifest))
    assert ran.exit_code != 0
    assert "unknown field" in ran.stderr


def moved(manifest: Manifest, reference: object) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], "accountRef": reference}}


@pytest.mark.parametrize("make", [gpu_pod, gpu_cluster], ids=["GpuPod", "GpuCluster"])
async def test_an_object_cannot_move_to_another_account(kube: Kube, make: Callable[[str], Manifest]) -> None:
    manifest = moved(make("movable"), {"name": "nobody"})
    await kube.create(manifest)
    try:
        for reference in ({"name": "other"}, {"kind": "ClusterCloudAccount", "name": "nobody"}, None):
            with pytest.raises(KubeError, match="accountRef cannot be changed") as refused:
                await kube.patch(manifest["kind"], "movable", {"spec": {"accountRef": reference}})
            assert "delete this object and create it with the other account" in refused.value.message
        await kube.patch(manifest["kind"], "movable", {"spec": {"image": "other"}})
    finally:
        await kube.delete(manifest["kind"], "movable")


async def test_a_cluster_is_scaled_through_its_subresource_and_never_to_nothing(kube: Kube) -> None:
    await kube.create(moved(gpu_cluster("scaled"), {"name": "nobody"}))
    try:
        await kube.patch("GpuCluster", "scaled", {"spec": {"replicas": 3}}, subresource="scale")
        assert (await kube.get("GpuCluster", "scaled"))["spec"]["replicas"] == 3
        with pytest.raises(KubeError, match="set powerState: Stopped"):
            await kube.patch("GpuCluster", "scaled", {"spec": {"replicas": 0}}, subresource="scale")
    finally:
        await kube.delete("GpuCluster", "scaled")


async def test_a_fresh_object_is_not_taken_for_ready(kube: Kube) -> None:
    created = await kube.create(moved(gpu_pod("fresh"), {"name": "nobody"}))
    try:
        assert created["status"] == {"observedGeneration": -1}
        assert not condition(created, "Ready")
    finally:
        await kube.delete("GpuPod", "fresh")
