"""An account whose sweeps a test makes."""

from __future__ import annotations

import pytest

from tests.unit.flows.account.swept import ACCOUNT, Listed, Swept
from tests.unit.flows.managed.world import World


@pytest.fixture
def swept(world: World) -> Swept:
    made = Swept(world)
    made.knows("GpuPod", Listed)
    made.has(ACCOUNT)
    return made
