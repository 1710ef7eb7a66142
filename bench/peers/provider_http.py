"""crossplane's provider-http as a process, from a folder that has it built, and a pod of the cloud as its Request.

A folder is a clone of its repository: with its program as `provider`, and its CRDs in `package/crds`. Nothing here
builds it.
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
    """The folder does not have what is needed."""


def user(namespace: str) -> str:
    """As whom it writes."""
    return f"system:serviceaccount:{namespace}:{NAME}"


def request(name: str, namespace: str, management_url: str) -> Manifest:
    """A Request that creates a pod, and looks at it; its key is in the namespace's Secret of an account."""
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
    """By its own word, which says less than ours: the pod exists."""
    return condition(item, "Ready").get("status") == "True"


@asynccontextmanager
async def provider_http(world: World, kube: Kube, folder: Path, api_key: str) -> AsyncIterator[Process]:
    """It runs with the settings that it has by itself, and has made one pod. Raises NotBuilt."""
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
    """A kubeconfig with every right, and a name of its own in the audit log."""
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": kube.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": NAME}}
    await kube.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}})
    await kube.create({**binding, "roleRef": role, "subjects": [subject]})
    return await world.plane.service_account_kubeconfig(kube.namespace, NAME)
