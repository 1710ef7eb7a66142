"""What people see of a release besides its objects: the chart's card, its notes, `helm test`."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from relay_operator.api.meta import VERSION
from relay_operator.crds import DEFINITIONS
from tests.support.binaries import helm
from tests.support.chart import CHART, RELEASE, rendered
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.process import free_port
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

CARD: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())


def annotation(name: str) -> Any:
    return yaml.safe_load(CARD["annotations"][f"artifacthub.io/{name}"])


def test_the_card_names_every_kind_and_the_image_of_this_version() -> None:
    kinds = {(one["kind"], one["version"], one["name"]) for one in annotation("crds")}
    assert kinds == {(one.kind, VERSION, f"{one.plural}.gpurelay.dev") for one in DEFINITIONS}
    assert [one["image"] for one in annotation("images")] == [f"relay-operator:{CARD['appVersion']}"]
    assert {one["kind"] for one in annotation("crdsExamples")} <= {one.kind for one in DEFINITIONS}


def test_the_card_has_all_that_a_catalog_shows() -> None:
    assert {"home", "icon", "sources", "maintainers", "kubeVersion", "keywords"} <= CARD.keys()
    assert (REPOSITORY / "docs" / CARD["icon"].rpartition("/")[2]).read_text().startswith("<svg")


def test_notes_tell_the_next_command() -> None:
    command = [str(helm()), "install", RELEASE, str(CHART), "--dry-run=client", "--output=json"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    notes = json.loads(shown.stdout)["info"]["notes"]
    assert "kubectl create secret generic relay-api-key" in notes
    assert "kind: CloudAccount" in notes
    assert "--set cloud.baseUrl" in notes
    assert f"helm test {RELEASE}" in notes


def test_nobody_is_told_to_upgrade_without_the_new_charts_defaults() -> None:
    """--reuse-values takes the defaults of the former chart: a value that is new is then not there at all."""
    texts = [path for folder in ("docs", "examples", "charts") for path in (REPOSITORY / folder).rglob("*.*")]
    told = [line for path in texts if path.suffix in {".md", ".yaml", ".txt"} for line in path.read_text().splitlines()]
    upgrades = [line for line in told if "helm upgrade" in line and "argocd" not in line]
    assert [line for line in upgrades if "--reset-then-reuse-values" in line]
    assert [line for line in upgrades if " --reuse-values" in line] == []


def test_flux_gives_the_release_the_name_that_commands_of_the_docs_have() -> None:
    """Without one, it would be that of the namespace and this, with a dash."""
    given = yaml.safe_load_all((REPOSITORY / "examples" / "gitops" / "flux.yaml").read_text())
    (release,) = (one["spec"] for one in given if one["kind"] == "HelmRelease")
    assert (release["releaseName"], release["targetNamespace"]) == (RELEASE, "relay-system")


@asynccontextmanager
async def a_listener() -> AsyncIterator[int]:
    """A port where HTTP is answered as the webhook port answers health checks."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def run_test_of(port: int) -> tuple[int | None, str]:
    """What the Pod of `helm test` ends with if the Service were this port."""
    (pod,) = (one for one in await rendered("relay-system") if one["kind"] == "Pod")
    assert pod["metadata"]["annotations"]["helm.sh/hook"] == "test"
    (container,) = pod["spec"]["containers"]
    python, *code, host, service_port, _seconds = container["command"]
    assert (python, host, service_port) == ("python", "relay-operator-webhook.relay-system", "80")
    command = (sys.executable, *code, "127.0.0.1", str(port), "0")
    done = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await done.communicate()
    return done.returncode, said.decode()


async def test_helm_test_passes_while_a_leader_answers() -> None:
    async with a_listener() as port:
        assert await run_test_of(port) == (0, f"a leader answers at 127.0.0.1:{port} with 200\n")


async def test_helm_test_fails_if_nobody_leads() -> None:
    status, said = await run_test_of(free_port())
    assert (status, "no leader answers" in said) == (1, True)


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget", "Deployment"])
async def test_the_pod_of_helm_test_is_nobody_elses(kind: str) -> None:
    manifests = await rendered("relay-system")
    (pod,) = (one for one in manifests if one["kind"] == "Pod")
    for one in manifests:
        if one["kind"] == kind:
            selector = one["spec"]["selector"]
            assert not selector.get("matchLabels", selector).items() <= pod["metadata"]["labels"].items()
