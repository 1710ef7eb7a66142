"""A cloud whose workloads are containers of the node, as its chart installs it."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tests.node.cloud.customer import Customer
from tests.support.binaries import kubectl as kubectl_binary
from tests.support.chart import LOCALCLOUD
from tests.support.controlplane import Ready
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.localcloud import Control, Ports
from tests.support.process import Process, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from tests.node.release import Release
    from tests.support.kube import Kube

NAMESPACE: Final = "gpu-cloud"
NAME: Final = "relay-localcloud"
POD: Final = f"{NAME}-0"
PRODUCT: Final = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
RUNTIME: Final = {
    "clusters": [{"name": "here", "storageClass": "local", "imagePullPolicy": "IfNotPresent"}],
    "gpuModels": [{"id": "h100", "nodeLabels": PRODUCT, "pricePerHourCents": 36_000}],
}
_PORTS: Final = {"management": 8400, "inference": 8401, "gateway": 8402, "ssh": 8403}


async def offer_gpus(kube: Kube) -> None:
    """The node says which GPUs it has."""
    (node,) = await kube.list("Node")
    await kube.patch("Node", node["metadata"]["name"], {"metadata": {"labels": PRODUCT}})


@dataclass
class House:
    """The cloud and one organization of it. Its ports are forwarded to this machine as long as its Pod is there."""

    release: Release
    folder: Path
    ports: Ports = field(default_factory=lambda: replace(Ports.free(), ssh=free_port()))
    control: Control = field(init=False)
    customer: Customer = field(init=False)
    _forwards: tuple[Process, ...] = field(init=False)

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.release.cluster.kubeconfig, NAMESPACE)

    async def install(self, values: Path) -> None:
        """`helm upgrade --install`, and an organization that has a GPU to itself as soon as it asks."""
        await offer_gpus(self.release.kube)
        install = ("upgrade", "--install", NAME, str(LOCALCLOUD), "--wait", "--timeout", "90s")
        await self.release.helm(*install, "--namespace", NAMESPACE, "--values", str(values))
        token = await self.kubectl("get", "secret", f"{NAME}-admin", "--output=jsonpath={.data.token}")
        management, _ = self.ports.urls()
        self.control = Control(f"{management}/_localcloud", management, base64.b64decode(token).decode())
        argv = [str(kubectl_binary()), f"--kubeconfig={self.release.cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        pairs = {name: f"{getattr(self.ports, name)}:{port}" for name, port in _PORTS.items()}
        ssh = pairs.pop("ssh")
        ready = Ready(f"{self.control.url}/clock", self.control.admin_token)
        log, forwarding = self.folder / "port-forward.log", [*argv, "port-forward", f"pod/{POD}"]
        self._forwards = (
            Process("port-forward", [*forwarding, *pairs.values()], log, ready),
            # kubectl forwards nothing more once a connection was reset, as those of SSH may be.
            Process("port-forward-ssh", [*forwarding, ssh], log.with_suffix(".ssh.log")),
        )
        await self._start_forwarding()
        team = await self.control.create_organization("ml")
        self.customer = Customer(self.release.kube, team, self.ports.gateway)
        await self.customer.is_offered()

    async def _start_forwarding(self) -> None:
        for forward in self._forwards:
            await forward.start()

    async def _stop_forwarding(self) -> None:
        for forward in self._forwards:
            await forward.stop()

    async def remove(self) -> None:
        """The release goes; its volume, and the namespaces of organizations, go with the node."""
        await self._stop_forwarding()
        await self.release.helm("uninstall", NAME, "--wait", "--timeout", "90s", "--namespace", NAMESPACE)

    async def killed(self) -> None:
        """The cloud's Pod ends at once, and another takes its place."""
        await self._stop_forwarding()
        uid = ("get", "pod", POD, "--output=jsonpath={.metadata.uid}")
        former = await self.kubectl(*uid)
        await self.kubectl("delete", "pod", POD, "--grace-period=0", "--force")

        async def serves() -> bool:
            now = await self.kubectl.attempt("get", "pod", POD, "--output=json")
            return f'"uid": "{former}"' not in now.stdout and '"ready": true' in now.stdout

        await eventually(serves, within=90, what="another Pod of the cloud is ready")
        await self._start_forwarding()
