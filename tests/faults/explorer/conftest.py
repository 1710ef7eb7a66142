"""The stage of histories: two operators with leader election."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest_asyncio

from tests.faults.explorer.expedition import Expedition
from tests.faults.stage import LEASE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.faults.stage import Stages
    from tests.support.localcloud import LocalCloud


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def expedition(stages: Stages, fault_cloud: LocalCloud, plan_folder: Path) -> AsyncIterator[Expedition]:
    """Plays histories with two operators on the shared API server."""
    async with stages.stage(fault_cloud, LEASE, replicas=2) as stage:
        yield Expedition(stage, plan_folder)
