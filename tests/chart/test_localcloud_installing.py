"""The chart of the local cloud on a real API server: everything is taken, and what people hold on to is kept."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import subprocess
from typing import TYPE_CHECKING

import pytest_asyncio

from tests.support.binaries import helm
from tests.support.chart import LOCALCLOUD, rendered, sets
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.kube import Kube
from tests.support.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.controlplane import Cluster

CLOUD = "relay-localcloud"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
SECRET, CLAIM = f"secret/{CLOUD}-admin", f"pvc/{CLOUD}"


async def run_helm(there: Kubectl, *arguments: str) -> str:
    """What helm says in that namespace; raises AssertionError with its words if it fails."""
    command = [str(helm()), *arguments, "--namespace", there.namespace]
    env = os.environ | {"KUBECONFIG": str(there.kubeconfig)}
    done = await asyncio.to_thread(
        subprocess.run, command, env=env, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest_asyncio.fixture
async def kubectl(cluster: Cluster) -> AsyncIterator[Kubectl]:
    """In a namespace that enforces restricted Pods and has a release."""
    own = Kubectl(cluster.kubeconfig, f"a-cloud-{secrets.token_hex(4)}")
    await own("create", "namespace", own.namespace)
    await own("label", "namespace", own.namespace, *(f"{name}={value}" for name, value in RESTRICTED.items()))
    await run_helm(own, "install", CLOUD, str(LOCALCLOUD))
    yield own
    await run_helm(own, "uninstall", CLOUD, "--ignore-not-found")
    await own("delete", "namespace", own.namespace, "--wait=false")


async def token(kubectl: Kubectl) -> str:
    """The admin token."""
    return base64.b64decode(await kubectl("get", SECRET, "--output=jsonpath={.data.token}")).decode()


async def test_an_upgrade_keeps_the_token(kubectl: Kubectl) -> None:
    made = await token(kubectl)
    assert len(made) == 43
    shown = await run_helm(kubectl, "upgrade", CLOUD, str(LOCALCLOUD), *sets("listVms=true"))
    assert "REVISION: 2" in shown
    assert await token(kubectl) == made
    arguments = await kubectl(
        "get", f"statefulset/{CLOUD}", "--output=jsonpath={.spec.template.spec.containers[0].args}"
    )
    assert "--list-vms" in arguments


async def test_the_volume_stays_and_the_next_release_goes_on_with_it(kubectl: Kubectl) -> None:
    itself = ("get", CLAIM, "--output=jsonpath={.metadata.uid} {.metadata.deletionTimestamp}")
    before = await kubectl(*itself)
    await run_helm(kubectl, "uninstall", CLOUD)
    assert await kubectl("get", "statefulsets,secrets,services", "--output=name") == ""
    await run_helm(kubectl, "install", CLOUD, str(LOCALCLOUD))
    assert await kubectl(*itself) == before


async def test_its_pods_are_admitted_where_the_restricted_standard_is_enforced(kubectl: Kubectl) -> None:
    manifests = {one["kind"]: one for one in await rendered(kubectl.namespace, chart=LOCALCLOUD)}
    template = manifests["StatefulSet"]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {"name": "a", **template["metadata"]}}
    async with Kube(kubectl.kubeconfig, kubectl.namespace) as kube:
        await eventually(kube.looking_at("ServiceAccount", "default"), what="Pods can be made")
        await kube.create(pod)
        await kube.create(manifests["Pod"])
