"""The cloud as a Pod, and what a test does to it from outside."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from tests.support.binaries import kubectl
from tests.support.controlplane import Ready
from tests.support.kubectl import Kubectl
from tests.support.localcloud import Control, Json, LocalCloud, Ports
from tests.support.process import Process

CLOUD = "relay-cloud"
_ADMIN = "relay-localcloud-admin"
_DEPLOYMENT = "deployment/relay-localcloud"
_SERVICE = "http://relay-localcloud.relay-cloud.svc.cluster.local"
MANAGEMENT_URL, INFERENCE_URL = f"{_SERVICE}:8400", f"{_SERVICE}:8401"


class CloudPod(LocalCloud):
    """The cloud that runs as a Pod. Accounts name its Service; `control` and `ports` are of this machine, forwarded."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        ports = Ports.free()
        super().__init__(folder, ports)
        self.management_url, self.inference_url = MANAGEMENT_URL, INFERENCE_URL
        argv = [str(kubectl()), f"--kubeconfig={kubeconfig}", f"--namespace={CLOUD}"]
        argv += ["port-forward", _DEPLOYMENT, f"{ports.management}:8400", f"{ports.inference}:8401"]
        self.process = Process("port-forward", argv, folder / "port-forward.log")
        self._kubectl = Kubectl(kubeconfig, CLOUD)

    async def start(self) -> None:
        """Its Pod runs, and is reached from here. Its admin token comes after it, as GitOps tools may apply them.

        In a cluster that was used before, it has one.
        """
        await self._kubectl("apply", "--filename", str(Path(__file__).with_name("cloud.yaml")))
        await self._kubectl.attempt("create", "secret", "generic", _ADMIN, "--from-literal=token=of these tests")
        token = base64.b64decode(await self._kubectl("get", "secret", _ADMIN, "--output=jsonpath={.data.token}"))
        self.control = Control(self.control.url, self.control.management_url, token.decode())
        self.process.ready = Ready(f"{self.control.url}/clock", self.control.admin_token)
        await self._kubectl("rollout", "status", _DEPLOYMENT, "--timeout=90s", within=120)
        await self.process.start()

    async def announcement(self) -> Json:
        """Its first line: the seeded organization, its key."""
        said: Json = json.loads((await self._kubectl("logs", _DEPLOYMENT)).splitlines()[0])
        return said
