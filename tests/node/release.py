"""The chart on a node, as an administrator installs it, with the cloud as a Pod beside it."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.node.cloud_pod import INFERENCE_URL, MANAGEMENT_URL
from tests.support.binaries import helm, kubectl
from tests.support.chart import CHART, RELEASE
from tests.support.eventually import eventually
from tests.support.manifests import SECRET, api_key_secret
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from tests.node.cloud_pod import CloudPod
    from tests.support.controlplane import Cluster
    from tests.support.kube import Kube, Manifest
    from tests.support.kubectl import Kubectl

OPERATOR = "relay-system"
TEAM = "team"
DEPLOYMENT = f"deployment/{RELEASE}"
VALUES = {
    "cloud.baseUrl": MANAGEMENT_URL,
    "cloud.inferenceUrl": INFERENCE_URL,
    "webhook.publicUrl": f"http://{RELEASE}-webhook.{OPERATOR}.svc.cluster.local",
}


@dataclass(frozen=True)
class Release:
    """One release of the chart; the operator's namespace enforces restricted Pods."""

    cluster: Cluster
    kube: Kube
    kubectl: Kubectl
    cloud: CloudPod

    async def install(self, **values: str) -> None:
        """`helm upgrade --install --wait`; underscores for dots."""
        await self.helm("upgrade", "--install", RELEASE, str(CHART), "--wait", "--timeout", "90s", *_sets(values))

    async def uninstall(self) -> None:
        """The CRDs, and the objects, stay."""
        await self.helm("uninstall", RELEASE, "--wait", "--timeout", "90s")

    async def helm(self, *arguments: str) -> str:
        """Raises AssertionError with what helm said."""
        done = await self.try_helm(*arguments)
        if done.returncode:
            raise AssertionError(f"helm {' '.join(arguments)} failed:\n{done.stderr}")
        return done.stdout

    async def try_helm(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The same where a refusal is what is wanted."""
        command = [str(helm()), "--namespace", OPERATOR, "--kubeconfig", str(self.cluster.kubeconfig), *arguments]
        path = os.pathsep.join((str(kubectl().parent), os.environ["PATH"]))
        return await asyncio.to_thread(
            subprocess.run,
            command,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )

    async def pods(self) -> list[Manifest]:
        """The operator's, those apart that are going or were evicted."""
        found = await self._pods(f"app.kubernetes.io/name={RELEASE}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def leader(self) -> str:
        """The Pod that leads, by its label: the webhook Service selects it."""
        found = await self._pods("gpurelay.dev/leader=true")
        return str(found[0]["metadata"]["name"]) if len(found) == 1 else ""

    async def leads_soon(self, *, but: str = "") -> str:
        """Waits until one Pod leads, and not that one."""
        return await eventually(self.leader, lambda name: name not in {"", but}, what="one Pod leads")

    async def _pods(self, labels: str) -> list[Manifest]:
        lasting = "status.phase!=Failed,status.phase!=Succeeded"
        return await self.kube.list("Pod", OPERATOR, labelSelector=labels, fieldSelector=lasting)

    async def restarts(self) -> dict[str, int]:
        """How often each Pod's container was started again."""
        pods = await self.pods()
        return {
            pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))
            for pod in pods
        }

    async def apply_examples(self) -> None:
        """What examples/ has, as its README says, in the namespace `team`."""
        key = (await self.cloud.announcement())["apiKey"]
        await self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
        await self.kube.apply({**api_key_secret(key), "metadata": {"name": SECRET, "namespace": TEAM}})
        for path in sorted((REPOSITORY / "examples").glob("*.yaml")):
            await self.kubectl("apply", "--namespace", TEAM, "--filename", str(path))


def _sets(values: dict[str, str]) -> list[str]:
    told = VALUES | {name.replace("_", "."): value for name, value in values.items()}
    return [part for name, value in told.items() for part in ("--set", f"{name}={value}")]
