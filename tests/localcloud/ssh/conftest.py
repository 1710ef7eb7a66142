"""A person whose key an organization has, and a pod of it that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from tests.localcloud.support.ssh import Person
from tests.localcloud.support.workloads import running_pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.localcloud.support.server import Organization


@pytest.fixture
def stranger(tmp_path: Path) -> Person:
    """Whose key nobody registered."""
    return Person.made(tmp_path, "stranger")


@pytest_asyncio.fixture
async def person(tmp_path: Path, organization: Organization) -> Person:
    """Whose key the organization has."""
    made = Person.made(tmp_path)
    await made.register(organization)
    return made


@pytest_asyncio.fixture
async def pod(organization: Organization) -> AsyncIterator[str]:
    """The id of a running pod, whose GPU is free again afterwards."""
    pod_id = await running_pod(organization)
    yield pod_id
    await organization.call("POST", f"/v1/vms/{pod_id}/terminate")
