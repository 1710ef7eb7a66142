"""What whoever tries the operator on a real node sees first: it runs from its image, as the chart installs it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.node.cloud_pod import CLOUD, INFERENCE_URL, MANAGEMENT_URL
from tests.node.gpus import NEEDS_GPUS
from tests.node.release import DEPLOYMENT, OPERATOR, TEAM
from tests.support.eventually import eventually
from tests.support.manifests import condition

if TYPE_CHECKING:
    from tests.node.release import Release

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_examples_become_ready_and_complete(examples: Release) -> None:
    wait = ("wait", "--namespace", TEAM, "--timeout=60s")
    await examples.kubectl(*wait, "--for=condition=Ready", "cacct/default", "gpod/trainer", "gcl/llm", within=90)
    await examples.kubectl(*wait, "--for=condition=Complete", "inferencebatch/capitals", within=90)
    assert set((await examples.restarts()).values()) == {0}


@NEEDS_GPUS
async def test_the_scheduler_counts_the_pretended_gpus(release: Release) -> None:
    told = await release.kubectl("get", "nodes", "--output=jsonpath={.items[0].status.allocatable.nvidia\\.com/gpu}")
    assert told == "8"


async def test_webhooks_reach_the_leader_through_the_service(examples: Release) -> None:
    async def accepted() -> int:
        leader = await examples.leads_soon()
        path = f"/api/v1/namespaces/{OPERATOR}/pods/{leader}:9090/proxy/metrics"
        text = await examples.kubectl("get", "--raw", path)
        (count,) = re.findall(r'^gpurelay_webhook_deliveries_total\{outcome="accepted"\} (\S+)', text, re.MULTILINE)
        return int(float(count))

    look = examples.kube.looking_at("CloudAccount", "default", TEAM)
    await eventually(look, lambda item: condition(item, "WebhookReady").get("status") == "True", what="it subscribed")
    await eventually(accepted, what="deliveries arrive")


async def test_pods_may_do_nothing_but_run(release: Release) -> None:
    for pod in await release.pods():
        (container,) = pod["spec"]["containers"]
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True


async def test_the_image_can_install_nothing_and_is_small(release: Release) -> None:
    leader = await release.leads_soon()
    inside = ("exec", "--namespace", OPERATOR, leader, "--", "python", "-c")
    refused = await release.kubectl.attempt(*inside, "import pip")
    assert "No module named 'pip'" in refused.stderr
    counted = "import pathlib; print(sum(path.lstat().st_size for path in pathlib.Path('/opt/relay').rglob('*')))"
    assert int(await release.kubectl(*inside, counted)) < 150_000_000


async def test_the_cloud_answers_its_administrator_from_other_pods(release: Release) -> None:
    said = await release.cloud.announcement()
    assert (said["managementUrl"], said["inferenceUrl"]) == (MANAGEMENT_URL, INFERENCE_URL)
    leader = await release.leads_soon()
    ask = f"""
import urllib.error, urllib.request
for token in ("{release.cloud.control.admin_token}", "wrong"):
    asked = urllib.request.Request("{said["controlUrl"]}/clock", headers=dict(Authorization="Bearer " + token))
    try:
        print(urllib.request.urlopen(asked).status)
    except urllib.error.HTTPError as refused:
        print(refused.code)
"""
    told = await release.kubectl("exec", "--namespace", OPERATOR, leader, "--", "python", "-c", ask)
    assert told.split() == ["200", "401"]


@pytest.mark.parametrize(
    ("module", "where"),
    [("relay_localcloud", OPERATOR), ("relay_cli", OPERATOR), ("relay_operator", CLOUD), ("relay_cli", CLOUD)],
)
async def test_an_image_has_nothing_of_the_other_programs(release: Release, module: str, where: str) -> None:
    deployment = DEPLOYMENT if where == OPERATOR else "deployment/relay-localcloud"
    inside = ("exec", "--namespace", where, deployment, "--", "python", "-c", f"import {module}")
    assert f"No module named '{module}'" in (await release.kubectl.attempt(*inside)).stderr


_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_WRITES = "open('/data/written', 'w').write('kept'); print(open('/data/written').read())"


async def test_a_claim_gets_a_volume_of_the_node(release: Release) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": _CLAIM}
    container = {
        "name": "writer",
        "image": "relay-localcloud:0.1.0",
        "imagePullPolicy": "Never",
        "command": ["python", "-c", _WRITES],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    spec = {
        "restartPolicy": "Never",
        "securityContext": {"fsGroup": 65532},
        "containers": [container],
        "volumes": [volume],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "writer"}, "spec": spec}
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": [claim, pod]})
    await release.kubectl("apply", "--filename", "-", stdin=both)
    await release.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/writer", "--timeout=50s")
    assert (await release.kubectl("logs", "writer")).strip() == "kept"
    await release.kubectl("delete", "pod/writer", "pvc/data")
