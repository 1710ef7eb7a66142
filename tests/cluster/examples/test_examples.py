"""What examples/ shows is what the API server takes."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
import yaml

from tests.support import chart
from tests.support.kubectl import Kubectl
from tests.support.toolchain import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.kube import Kube

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest_asyncio.fixture
async def kubectl(kube: Kube) -> AsyncIterator[Kubectl]:
    """kubectl in a namespace of its own, with the kinds installed."""
    await chart.install_crds(kube)
    namespace = f"examples-{secrets.token_hex(3)}"
    await kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    yield Kubectl(kube.kubeconfig, namespace)
    await kube.delete("Namespace", namespace)


@pytest.mark.parametrize("text", [path.read_text() for path in EXAMPLES], ids=[path.stem for path in EXAMPLES])
async def test_an_example_is_accepted_strictly_by_the_api_server(kubectl: Kubectl, text: str) -> None:
    said = await kubectl("apply", "--dry-run=server", "--validate=strict", "--filename=-", stdin=text)
    assert said.count("created (server dry run)") == len([one for one in yaml.safe_load_all(text) if one])
