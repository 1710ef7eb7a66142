"""examples/autoscaling: a HorizontalPodAutoscaler really scales a GpuCluster; KEDA takes the ScaledObject.

And the node has what others need for theirs: metrics of its Pods.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.node.release import TEAM
from tests.support.certificates import Authority
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.toolchain import REPOSITORY, go_module

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.node.release import Release
    from tests.support.kube import Manifest

pytestmark = pytest.mark.asyncio(loop_scope="session")
EXAMPLES = REPOSITORY / "examples" / "autoscaling"
ADAPTER = "external-metrics"
KEDA = ("github.com/kedacore/keda/v2", "v2.21.0", "h1:R6z2HZvstK4RLUMxroNACzBj74xGxt3kG59b5Xc+Xps=")


class Adapter:
    """What serves the metric: it is what a test says."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    async def says(self, value: int) -> None:
        """The metric is this from now on."""
        write = f"open('/tmp/value', 'w').write('{value}')"
        await self._kubectl("exec", "deployment/adapter", "--", "python", "-c", write)


@pytest_asyncio.fixture(loop_scope="session")
async def adapter(release: Release, tmp_path: Path) -> AsyncIterator[Adapter]:
    """external.metrics.k8s.io is served while this lasts."""
    here, kubectl = Path(__file__).parent, Kubectl(release.cluster.kubeconfig, ADAPTER)
    Authority.create("external-metrics").serve(tmp_path / "serving", [f"adapter.{ADAPTER}.svc"], [])
    await release.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADAPTER}})
    files = [f"--{part}={tmp_path / f'serving.{ending}'}" for part, ending in (("cert", "crt"), ("key", "key"))]
    await kubectl("create", "secret", "tls", "serving", *files)
    await kubectl("create", "configmap", "adapter", f"--from-file={here / 'metrics_adapter.py'}")
    manifest = here / "metrics_adapter.yaml"
    await kubectl.shell(f"kubectl apply --filename {manifest}")
    await kubectl("rollout", "status", "deployment/adapter", "--timeout=60s", within=90)
    yield Adapter(kubectl)
    await kubectl.shell(f"kubectl delete --filename {manifest}; kubectl delete namespace {ADAPTER} --wait=false")


async def test_an_autoscaler_scales_a_cluster_by_an_external_metric(examples: Release, adapter: Adapter) -> None:
    look = examples.kube.looking_at("GpuCluster", "llm", TEAM)

    async def has(replicas: int) -> None:
        def settled(item: Manifest | None) -> bool:
            status = (item or {}).get("status") or {}
            return status.get("readyReplicas") == status.get("replicas") == replicas

        await eventually(look, settled, what=f"the cluster has {replicas} replicas")

    before = await look() or {}
    await adapter.says(40)  # and a replica is there for 10
    await examples.kubectl("apply", "--namespace", TEAM, "--filename", str(EXAMPLES / "hpa.yaml"))
    await has(4)
    at_once = '{"spec": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}}}}'
    await examples.kubectl("patch", "hpa", "llm", "--namespace", TEAM, "--type=merge", "--patch", at_once)
    await adapter.says(5)
    await has(1)
    assert (await look() or {})["status"]["id"] == before["status"]["id"]
    await examples.kubectl("delete", "hpa", "llm", "--namespace", TEAM)


async def test_keda_takes_the_scaled_object(examples: Release) -> None:
    crd = go_module(*KEDA) / "config" / "crd" / "bases" / "keda.sh_scaledobjects.yaml"
    await examples.kubectl("apply", "--server-side", "--filename", str(crd))
    established = ("wait", "--for=condition=Established", "crd/scaledobjects.keda.sh", "--timeout=30s")
    await examples.kubectl(*established)
    applied = ("apply", "--validate=strict", "--namespace", TEAM, "--filename", str(EXAMPLES / "keda.yaml"))
    await examples.kubectl(*applied)
    await examples.kubectl("delete", "--filename", str(crd))


@pytest.mark.skipif("RELAY_TEST_KUBECONFIG" in os.environ, reason="only the project's own node is sure of metrics")
async def test_an_autoscaler_scales_pods_by_the_cpu_that_they_use(kubectl: Kubectl) -> None:
    manifest = str(Path(__file__).with_name("busy.yaml"))
    await kubectl("apply", "--filename", manifest)
    scaled = ("wait", "--for=jsonpath={.status.desiredReplicas}=2", "hpa/busy", "--timeout=120s")
    await kubectl(*scaled, within=150)
    used = (await kubectl("top", "pods", "--selector=app=busy", "--no-headers")).splitlines()[0].split()
    assert int(used[1].removesuffix("m")) > 50
    assert "%" in await kubectl("top", "nodes", "--no-headers")
    await kubectl("delete", "--filename", manifest)
