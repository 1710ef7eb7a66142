"""What the cloud answers with 429 is not asked again before its Retry-After is over (section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_operator.api.meta import ObjectKey
from relay_operator.catalog.catalog import Catalog
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from tests.unit.flows.account.passes import Passes

ADVISED = 120


@pytest.mark.parametrize("asked", ["whoami", "balance", "usage", "webhooks"])
async def test_a_look_waits_as_long_as_it_is_told(passes: Passes, asked: str) -> None:
    if asked == "webhooks":
        passes.public_url = "https://operator.example"
        await passes.restart()
    if asked != "whoami":
        await passes.settled()
    passes.cloud.limited[asked] = ADVISED
    await passes.look()
    assert asked not in await passes.glances(ADVISED - 1)
    assert asked in await passes.glances(ADVISED)


async def test_a_glance_waits_as_long_as_it_is_told(passes: Passes) -> None:
    await passes.settled()
    await passes.refuse(ObjectKey("GpuPod", NAMESPACE, "train"))
    passes.cloud.limited["balance"] = ADVISED
    assert (await passes.glances(12)).count("balance") == 1
    assert "balance" not in await passes.glances(ADVISED - 12)
    assert "balance" in await passes.glances(ADVISED)


async def test_the_catalog_waits_as_long_as_it_is_told(passes: Passes) -> None:
    await passes.settled()
    world = passes.world
    catalog = Catalog(
        world.kube, world.cache, passes.accounts, passes.flow.actor.settings, lambda: False, world.clock.wall
    )
    passes.cloud.limited["gpu-models"] = ADVISED
    assert await catalog.turn() == ADVISED
