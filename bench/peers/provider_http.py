"""Crossplane's provider-http as a process, and its Requests for pods of the cloud.

It runs from a clone of its repository with the built program as `provider` and the CRDs in `package/crds`.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from bench.world import World
from tests.support.eventually import eventually
from tests.support.kube import RESOURCES, Kube, KubeError, Manifest, Resource
from tests.support.manifests import SECRET, SECRET_KEY, api_key_secret, condition
from tests.support.process import Process

NAME = "provider-http"
REQUEST = "Request"
_GROUP = "http.crossplane.io"
RESOURCES[REQUEST] = Resource(f"/apis/{_GROUP}/v1alpha2", "requests", namespaced=False)
RESOURCES["ProviderConfig"] = Resource(f"/apis/{_GROUP}/v1alpha1", "providerconfigs", namespaced=False)


class NotBuilt(Exception):
    """The folder lacks the program or the CRDs."""


def user(namespace: str) -> str:
    """Returns its user in the audit log."""
    return f"system:serviceaccount:{namespace}:{NAME}"


def request(name: str, namespace: str, management_url: str) -> Manifest:
    """Returns a Request that creates a pod and observes it, with the API key in the namespace's Secret."""
    pod = {"image": "pytorch/pytorch:2.9.0", "name": name, "gpuModelId": "h100", "gpuCount": 1}
    fields = ", ".join(f"{field}: .payload.body.{field}" for field in pod)
    return {
        "apiVersion": f"{_GROUP}/v1alpha2",
        "kind": REQUEST,
        "metadata": {"name": name},
        "spec": {
            "forProvider": {
                "headers": {
                    "Content-Type": ["application/json"],
                    "Authorization": [f"Bearer {{{{ {SECRET}:{namespace}:{SECRET_KEY} }}}}"],
                },
                "payload": {"baseUrl": f"{management_url}/v1", "body": json.dumps(pod)},
                "mappings": [
                    {"action": "CREATE", "body": f"{{ {fields} }}", "url": '.payload.baseUrl + "/pods"'},
                    {"action": "OBSERVE", "url": '.payload.baseUrl + "/vms/" + (.response.body.id | tostring)'},
                ],
            },
            "providerConfigRef": {"name": "default"},
        },
    }


def is_ready(item: Manifest | None) -> bool:
    """Whether its condition Ready is true, which means less than ours: that the pod exists."""
    return condition(item, "Ready").get("status") == "True"


@asynccontextmanager
async def provider_http(world: World, kube: Kube, folder: Path, api_key: str) -> AsyncIterator[Process]:
    """Starts it with its default settings and waits until it has created one pod. Raises NotBuilt."""
    program, definitions = folder / "provider", sorted((folder / "package" / "crds").glob("*.yaml"))
    if not os.access(program, os.X_OK) or not definitions:
        raise NotBuilt(f"{folder} must have provider-http's program as `provider`, and its CRDs in `package/crds`")
    for path in definitions:
        await kube.apply(yaml.safe_load(path.read_text()))
    await kube.create(api_key_secret(api_key))
    await eventually(lambda: _configured(kube), within=60, what=f"the CRDs of {NAME} are served")
    config = await _access(world, kube)
    env = {**os.environ, "KUBECONFIG": str(config)}
    process = Process(NAME, [str(program.resolve())], world.folder / f"{NAME}.log", env=env)
    await process.start()
    try:
        await kube.create(request("first", kube.namespace, world.cloud.management_url))
        await eventually(kube.looking_at(REQUEST, "first"), is_ready, within=120, what=f"{NAME} works")
        yield process
    finally:
        await process.kill()


async def _configured(kube: Kube) -> bool:
    manifest = {"apiVersion": f"{_GROUP}/v1alpha1", "kind": "ProviderConfig", "metadata": {"name": "default"}}
    try:
        await kube.apply({**manifest, "spec": {"credentials": {"source": "None"}}})
        await kube.list(REQUEST)
    except KubeError:
        return False
    return True


async def _access(world: World, kube: Kube) -> Path:
    """Returns a kubeconfig of a ServiceAccount with every right, whose name identifies it in the audit log."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": kube.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME}}
    await kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}})
    await kube.create({**binding, "roleRef": role, "subjects": [subject]})
    return await world.plane.service_account_kubeconfig(kube.namespace, NAME)
