"""The chart on a node, as an administrator installs it, with the cloud as a Pod beside it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.binaries import helm, kubectl
from tests.support.chart import CHART, RELEASE
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.manifests import api_key_secret
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from hack.node.node import Node
    from tests.support.kube import Kube, Manifest

OPERATOR = "relay-system"
CLOUD = "relay-cloud"
TEAM = "team"
DEPLOYMENT = f"deployment/{RELEASE}"
_CLOUD = "http://relay-localcloud.relay-cloud.svc.cluster.local"
VALUES = {
    "cloud.baseUrl": f"{_CLOUD}:8400",
    "cloud.inferenceUrl": f"{_CLOUD}:8401",
    "webhook.publicUrl": f"http://{RELEASE}-webhook.{OPERATOR}.svc.cluster.local",
}


@dataclass(frozen=True)
class Release:
    """One release of the chart; the operator's namespace enforces restricted Pods."""

    node: Node
    kube: Kube
    kubectl: Kubectl

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
        command = [str(helm()), "--namespace", OPERATOR, "--kubeconfig", str(self.node.kubeconfig), *arguments]
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
        """The operator's, those that are going apart."""
        found = await self.kube.list("Pod", OPERATOR, labelSelector=f"app.kubernetes.io/name={RELEASE}")
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    async def leader(self) -> str:
        """The Pod that leads, by its label: the webhook Service selects it."""
        found = await self.kube.list("Pod", OPERATOR, labelSelector="gpurelay.dev/leader=true")
        return str(found[0]["metadata"]["name"]) if len(found) == 1 else ""

    async def leads_soon(self, *, but: str = "") -> str:
        """Waits until one Pod leads, and not that one."""
        return await eventually(self.leader, lambda name: name not in {"", but}, within=60, what="one Pod leads")

    async def restarts(self) -> dict[str, int]:
        """How often each Pod's container was started again."""
        pods = await self.pods()
        return {
            pod["metadata"]["name"]: sum(one["restartCount"] for one in pod["status"].get("containerStatuses", []))
            for pod in pods
        }

    async def api_key(self) -> str:
        """The one that the cloud said in its first line."""
        log = await self.kubectl("logs", "--namespace", CLOUD, "deployment/relay-localcloud")
        said: dict[str, Any] = json.loads(log.splitlines()[0])
        return str(said["apiKey"])

    async def apply_examples(self) -> None:
        """What examples/ has, as its README says, in the namespace `team`."""
        await self.kubectl("create", "namespace", TEAM)
        await self.kube.apply({**api_key_secret(await self.api_key()), "metadata": _named("relay-api-key")})
        for path in sorted((REPOSITORY / "examples").glob("*.yaml")):
            await self.kubectl("apply", "--namespace", TEAM, "--filename", str(path))


async def cloud_is_up(node: Node) -> None:
    """The cloud's Pod answers."""
    kubectl = Kubectl(node.kubeconfig, CLOUD)
    await kubectl("apply", "--filename", str(Path(__file__).with_name("cloud.yaml")))
    await kubectl("rollout", "status", "deployment/relay-localcloud", "--timeout=90s", within=120)


def _named(name: str) -> Manifest:
    return {"name": name, "namespace": TEAM}


def _sets(values: dict[str, str]) -> list[str]:
    told = VALUES | {name.replace("_", "."): value for name, value in values.items()}
    return [part for name, value in told.items() for part in ("--set", f"{name}={value}")]
