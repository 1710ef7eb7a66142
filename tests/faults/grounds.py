"""Chooses the ground of a scenario."""

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
    """Creates what the scenario needs, except the account and the object."""
    if scenario in BATCHES:
        return await BatchGround.of(kube, site, scenario)
    return await Ground.prepare(kube, site, scenario, EVERY[scenario])
