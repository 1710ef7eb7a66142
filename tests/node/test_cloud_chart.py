"""The chart of the local cloud on a real node: it runs as installed, and what a team has in it outlives its Pod."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.node.conftest import RESTRICTED
from tests.support.binaries import kubectl as kubectl_binary
from tests.support.chart import LOCALCLOUD, sets
from tests.support.controlplane import Ready
from tests.support.eventually import eventually
from tests.support.kubectl import Kubectl
from tests.support.localcloud import Control
from tests.support.process import Process, free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.node.release import Release

pytestmark = pytest.mark.asyncio(loop_scope="session")

NAMESPACE = "team-cloud"
NAME = "relay-localcloud"
POD = {"image": "pytorch/pytorch:2.9.0", "gpuModelId": "h100"}
INSTALL = ("upgrade", "--install", NAME, str(LOCALCLOUD), "--wait", "--timeout", "90s", "--namespace", NAMESPACE)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def team_cloud(release: Release) -> AsyncIterator[Kubectl]:
    """kubectl in a namespace that enforces restricted Pods and has a cloud; its volume goes with it."""
    own = Kubectl(release.cluster.kubeconfig, NAMESPACE)
    metadata = {"name": NAMESPACE, "labels": RESTRICTED}
    await release.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    await release.helm(*INSTALL)
    yield own
    await release.helm("uninstall", NAME, "--wait", "--timeout", "90s", "--namespace", NAMESPACE)
    await own("delete", "namespace", NAMESPACE, "--timeout=50s")


@asynccontextmanager
async def reached(kubectl: Kubectl, folder: Path) -> AsyncIterator[Control]:
    """Its control interface, through its Service, with the token that the chart made."""
    token = await kubectl("get", "secret", f"{NAME}-admin", "--output=jsonpath={.data.token}")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    control = Control(f"{url}/_localcloud", url, base64.b64decode(token).decode())
    argv = [str(kubectl_binary()), f"--kubeconfig={kubectl.kubeconfig}", f"--namespace={NAMESPACE}"]
    argv += ["port-forward", f"service/{NAME}-management", f"{port}:8400"]
    ready = Ready(f"{control.url}/clock", control.admin_token)
    forward = Process("port-forward", argv, folder / "port-forward.log", ready)
    await forward.start()
    try:
        yield control
    finally:
        await forward.stop()


async def replaced(kubectl: Kubectl, former: str) -> None:
    """Return once another Pod is ready."""
    ready = '{.metadata.uid} {.status.conditions[?(@.type=="Ready")].status}'
    look = ("get", "pod", f"{NAME}-0", f"--output=jsonpath={ready}")

    async def said() -> list[str]:
        return (await kubectl.attempt(*look)).stdout.split()

    await eventually(said, lambda now: now[1:] == ["True"] and now[0] != former, what="another Pod is ready")


async def test_what_a_team_has_outlives_the_pod_and_an_upgrade(
    release: Release, team_cloud: Kubectl, tmp_path: Path
) -> None:
    async with reached(team_cloud, tmp_path / "before") as control:
        team = await control.create_organization("ml")
        pod = (await team.call("POST", "/v1/pods", POD))["id"]
    uid = ("get", "pod", f"{NAME}-0", "--output=jsonpath={.metadata.uid}")
    first = await team_cloud(*uid)
    await team_cloud("delete", "pod", f"{NAME}-0", "--wait=false")
    await replaced(team_cloud, first)
    second = await team_cloud(*uid)
    await release.helm(*INSTALL, *sets("listVms=true"))
    await replaced(team_cloud, second)
    async with reached(team_cloud, tmp_path / "after") as control:
        again = replace(team, management_url=control.management_url)
        assert (await again.vm(pod))["id"] == pod
        assert [one["id"] for one in (await again.call("GET", f"/v1/orgs/{team.id}/vms"))["items"]] == [pod]


@pytest.mark.usefixtures("team_cloud")
async def test_helm_test_says_that_it_answers(release: Release) -> None:
    said = await release.helm("test", NAME, "--timeout", "90s", "--namespace", NAMESPACE)
    assert "Phase:" in said
    assert "Succeeded" in said


async def test_the_state_is_its_owners_alone_and_the_rest_of_its_disk_is_read_only(team_cloud: Kubectl) -> None:
    inside = ("exec", f"{NAME}-0", "--", "python", "-c")
    look = "import os, stat; print(oct(stat.S_IMODE(os.stat('/data/state').st_mode)), os.getuid())"
    assert (await team_cloud(*inside, look)).split() == ["0o700", "65532"]
    assert "Read-only file system" in (await team_cloud.attempt(*inside, "open('/opt/relay/x', 'w')")).stderr
    no_token = "import os; print(os.path.exists('/var/run/secrets/kubernetes.io'))"
    assert (await team_cloud(*inside, no_token)).strip() == "False"
