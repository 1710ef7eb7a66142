"""What is given wrong, or too late: it is told, and nothing else suffers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.node.cloud_pod import CLOUD
from tests.node.release import OPERATOR
from tests.support.eventually import eventually
from tests.support.manifests import SECRET_KEY, api_key_secret, condition, gpu_pod, relay_object

if TYPE_CHECKING:
    from tests.node.release import Release
    from tests.support.kube import Manifest
    from tests.support.workspace import Workspace

pytestmark = pytest.mark.asyncio(loop_scope="session")
_FILL = """
import os
with open("/tmp/filled", "wb") as file:
    os.posix_fallocate(file.fileno(), 0, 2**31 + 2**27)
"""
"""More than the chart's `temporaryStorage`."""


async def test_a_key_that_comes_after_its_account_is_taken(team: Workspace) -> None:
    late = relay_object("CloudAccount", "late", apiKeySecretRef={"name": "late", "key": SECRET_KEY})
    await team.apply(late)
    await team.apply(gpu_pod("one", accountRef={"name": "late"}))

    def missing(item: Manifest | None) -> bool:
        return condition(item, "Ready").get("reason") == "SecretMissing"

    await team.becomes("CloudAccount", "late", missing)
    await team.apply(api_key_secret(team.organization.api_key, "late"))
    await team.becomes("GpuPod", "one")


async def test_a_replica_that_fills_its_volume_is_replaced(team: Workspace, release: Release) -> None:
    leader = await release.leads_soon()
    await release.kubectl("exec", "--namespace", OPERATOR, leader, "--", "python", "-c", _FILL)
    look = release.kube.looking_at("Pod", leader, OPERATOR)

    def evicted(pod: Manifest | None) -> bool:
        # Succeeded is an operator that ended in order, as it was told to.
        return pod is None or pod["status"]["phase"] in {"Failed", "Succeeded"}

    await eventually(look, evicted, what="the kubelet evicts it")
    await release.leads_soon(but=leader)
    await team.apply(gpu_pod("one"))
    await team.becomes("GpuPod", "one")
    await release.kube.delete("Pod", leader, OPERATOR)


async def test_a_cloud_whose_volume_is_read_only_says_so_and_ends(release: Release) -> None:
    container = {
        "name": "cloud",
        "image": "relay-localcloud:0.1.0",
        "imagePullPolicy": "Never",
        "args": ["serve", "--state", "/state/cloud"],
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    volume = {"name": "state", "configMap": {"name": "kube-root-ca.crt"}}
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": [volume]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "read-only", "namespace": CLOUD}, "spec": spec}
    await release.kube.create(pod)
    look = release.kube.looking_at("Pod", "read-only", CLOUD)
    ended = await eventually(
        look, lambda item: (item or {})["status"]["phase"] in {"Failed", "Succeeded"}, what="it ends"
    )
    (status,) = (ended or {})["status"]["containerStatuses"]
    assert status["state"]["terminated"]["exitCode"] == 1
    said = await release.kubectl("logs", "--namespace", CLOUD, "read-only")
    assert "relay-localcloud: " in said.splitlines()[-1]
    assert "Traceback" not in said, json.dumps(said)
    await release.kube.delete("Pod", "read-only", CLOUD)
