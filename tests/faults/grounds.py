"""The ground that belongs to a scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.faults.batch_ground import BatchGround
from tests.faults.batch_scenarios import BATCHES
from tests.faults.every_scenario import EVERY
from tests.faults.ground import Ground

if TYPE_CHECKING:
    from tests.faults.ground import Site
    from tests.support.kube import Kube


async def prepared(kube: Kube, site: Site, scenario: str) -> Ground:
    """Makes what the scenario needs, but for the account and the object itself."""
    if scenario in BATCHES:
        return await BatchGround.of(kube, site, scenario)
    return await Ground.prepare(kube, site, scenario, EVERY[scenario])
