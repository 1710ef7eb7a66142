"""A cloud of one's own beside the operator: its workloads are containers of this node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.conftest import session_fixture
from tests.node.cloud.house import NAMESPACE, RUNTIME, House
from tests.node.conftest import RESTRICTED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from tests.node.cloud.customer import Customer
    from tests.node.release import Release


@session_fixture
async def house(release: Release, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    """Installed in a namespace that enforces restricted Pods, with the node's eight GPUs on sale."""
    folder = tmp_path_factory.mktemp("house")
    metadata = {"name": NAMESPACE, "labels": RESTRICTED}
    await release.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump({"runtimeConfig": RUNTIME}))
    own = House(release, folder)
    await own.install(values)
    yield own
    await own.remove()


@session_fixture
async def customer(house: House) -> Customer:
    """Its one organization."""
    return house.customer
