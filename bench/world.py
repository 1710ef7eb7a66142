"""Starts what is measured: a control plane with its audit log, a local cloud, and the operator or the floor."""

import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from bench.floor import Orders
from tests.support import binaries, chart
from tests.support.controlplane import ControlPlane
from tests.support.eventually import eventually
from tests.support.kube import RESOURCES, Kube, Manifest
from tests.support.localcloud import LocalCloud, Organization, Ports
from tests.support.manifests import api_key_secret, cloud_account, ready
from tests.support.operator import Operator
from tests.support.process import Process, free_port

NAMESPACE = "relay-system"
OPERATOR_USER = f"system:serviceaccount:{NAMESPACE}:relay-operator"
FASTEST = {"requestsPerSecond": 1000, "burst": 1000}


@dataclass(frozen=True, slots=True)
class World:
    """The servers that all measurements of one run share."""

    folder: Path
    plane: ControlPlane
    cloud: LocalCloud
    kubeconfig: Path
    """A kubeconfig of the chart's ServiceAccount."""

    async def organization(self, name: str, gpus: int) -> Organization:
        """Creates an organization with ample funds and adds nodes for so many GPUs."""
        for _ in range(-(-gpus // 8)):
            await self.cloud.control.add_node("h100", 8)
        return await self.cloud.control.create_organization(name, balance_cents=10**9)

    @asynccontextmanager
    async def namespace(self, name: str) -> AsyncIterator[Kube]:
        """Creates a namespace and yields an administrator's client for it."""
        async with Kube(self.plane.kubeconfig, name) as kube:
            await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            yield kube

    async def account(self, kube: Kube, organization: Organization) -> None:
        """Creates the namespace's account with a rate limit that is never reached; returns once it is Ready."""
        await kube.create(api_key_secret(organization.api_key))
        account: Manifest = cloud_account(self.cloud.management_url, self.cloud.inference_url, rateLimit=FASTEST)
        await kube.create(account)
        await eventually(kube.looking_at("CloudAccount", "default"), ready, within=60, what="the account is Ready")

    @asynccontextmanager
    async def operator(self, settings: Mapping[str, str] | None = None) -> AsyncIterator[Operator]:
        """Starts an operator with default settings, except these, until it is ready; stops it after the block."""
        urls = [self.cloud.management_url, self.cloud.inference_url]
        operator = Operator(self.folder / "operator", self.kubeconfig, NAMESPACE, urls, settings)
        await operator.start()
        try:
            yield operator
        finally:
            await operator.stop()

    @asynccontextmanager
    async def floor(self, namespace: str, organization: Organization) -> AsyncIterator[Process]:
        """Starts the floor, which watches the namespace; kills it after the block."""
        folder = self.folder / f"floor-{namespace}"
        folder.mkdir()
        config = yaml.safe_load(self.kubeconfig.read_text())
        server = config["clusters"][0]["cluster"]["server"]
        orders = Orders(
            pods_url=server + RESOURCES["GpuPod"].path(namespace),
            token=config["users"][0]["user"]["token"],
            management_url=self.cloud.management_url,
            organization_id=organization.id,
            api_key=organization.api_key,
            port=free_port(),
        )
        (folder / "orders.json").write_text(json.dumps(asdict(orders)))
        said = folder / "said"

        async def watching() -> bool:
            return said.exists() and "watching" in said.read_text()

        argv = [sys.executable, "-m", "bench.floor", str(folder / "orders.json")]
        process = Process("floor", argv, folder / "log", ready=watching, env=dict(os.environ), stdout=said)
        await process.start()
        try:
            yield process
        finally:
            await process.kill()


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Starts the servers and ends them with the block."""
    plane = await ControlPlane.start(folder / "controlplane", binaries.server_binaries())
    cloud = LocalCloud(folder / "localcloud", Ports.free())
    try:
        await cloud.start()
        await cloud.control.settings(placementSeconds=0.2, startSeconds=0.2, stopSeconds=0.2)
        async with Kube(plane.kubeconfig) as kube:
            await chart.install_crds(kube)
        yield World(folder, plane, cloud, await chart.grant_access(plane, NAMESPACE))
    finally:
        await cloud.process.kill()
        await plane.stop()
