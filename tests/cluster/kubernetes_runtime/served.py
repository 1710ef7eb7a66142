"""The cloud of a stage as a process, started as its command line says, and killed."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

import pytest
import yaml

from relay_localcloud.runtimes.kubernetes.names import namespace_of
from tests.cluster.kubernetes_runtime.stage import PRODUCT, Stage
from tests.support.localcloud import LocalCloud, Ports

TINY = {"resourceSize": "tiny", "vcpu": 1, "ramMb": 512, "pricePerHourCents": 1}
"""The only size of what has no GPU."""


@dataclass
class Served(Stage):
    """One state directory, and a process that may be killed at any moment and started again."""

    ports: Ports = field(default_factory=Ports.free)
    cloud: LocalCloud = field(init=False)

    async def start(self, *, reconciling: bool = True) -> None:
        """Serve the state; a process always reconciles."""
        assert reconciling
        config = self.state.with_name("runtime.yaml")
        config.write_text(
            yaml.safe_dump(
                {
                    "clusters": [{"name": name, "storageClass": "fast"} for name in ("eu", *self.others)],
                    "gpuModels": [{"id": "h100", "nodeLabels": {PRODUCT: self.product}, "pricePerHourCents": 36_000}],
                    "cpuSizes": [TINY],
                }
            )
        )
        of_runtime = ["--runtime", "kubernetes", "--runtime-config", str(config)]
        for name, kubeconfig in {"eu": self.kubeconfig, **self.others}.items():
            of_runtime += ["--cluster", f"{name}={kubeconfig}"]
        self.cloud = LocalCloud(self.state.parent, self.ports, more=of_runtime, forks=True)
        await self.cloud.start()
        self.organization = self.cloud.seeded_organization()
        self.namespace = namespace_of(self.organization.id)

    async def end(self) -> None:
        """kill -9."""
        await self.cloud.process.kill()

    async def killed_and_started(self) -> None:
        """In the middle of whatever it did."""
        await self.end()
        await self.start()


def own_address() -> str:
    """Of this machine: API servers proxy to no loopback address."""
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
        except OSError:
            pytest.skip("this machine has no address but loopback's")
        return str(probe.getsockname()[0])
