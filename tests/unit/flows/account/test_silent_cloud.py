"""A cloud that answers nobody any more is told of by the account about as early as by what uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from relay_client import CloudError
from relay_client.operations import GET_VM
from relay_operator.api.meta import ObjectKey
from relay_operator.engine.account import AccountReady
from tests.unit.flows.account.passes import KEY
from tests.unit.flows.managed.world import NAMESPACE

if TYPE_CHECKING:
    from tests.unit.flows.account.passes import Passes

POD = ObjectKey("GpuPod", NAMESPACE, "train")
EVERYTHING = ("pod-1", "whoami", "balance", "usage", "webhooks", "auto-recharge")


async def _fails(passes: Passes) -> None:
    """A look at a pod."""
    ready = await passes.accounts.state(KEY)
    assert isinstance(ready, AccountReady)
    with pytest.raises(CloudError) as failure:
        await ready.cloud.call(GET_VM, id="pod-1")
    passes.accounts.failed(ready, failure.value, POD)


@pytest.mark.virtual_time
async def test_a_cloud_that_answers_none_of_its_objects_is_asked_by_the_account_and_told_of_at_once(
    passes: Passes,
) -> None:
    passes.public_url = "https://operator.example"
    await passes.restart()
    await passes.settled()
    passes.cloud.failing = EVERYTHING
    await _fails(passes)
    assert await passes.glances(30) == [], "one call says little"
    await _fails(passes)
    asked = await passes.glances(1)
    assert set(asked) == {"balance"}, "one request, with its repetitions"
    assert "Stalled" in passes.conditions()
    assert passes.condition("Ready")[0] == "True", "as it was last seen"
    await passes.glances(600)
    assert set(passes.cloud.asked) == {"balance"}
    passes.cloud.failing = ()
    await passes.glances(61)
    assert "Stalled" not in passes.conditions()
    assert "usage" in passes.cloud.asked, "the look that was due"


@pytest.mark.virtual_time
async def test_a_cloud_that_fails_one_operation_alone_is_well(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.failing = ("pod-1",)
    for _ in range(3):
        await _fails(passes)
        passes.world.clock.seconds += 30
        await _fails(passes)
        assert await passes.glances(11) == ["balance"]
    assert "Stalled" not in passes.conditions()


@pytest.mark.virtual_time
async def test_what_is_told_of_a_silent_cloud_stays_while_it_wants_not_to_be_asked(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.limited["balance"] = 120
    for _ in range(3):
        await passes.look()
    told = passes.status().conditions
    passes.written()
    await passes.go_on(1)
    assert (passes.status().conditions, passes.written()) == (told, [])
    passes.cloud.limited.clear()
    await passes.look()
    assert "Stalled" not in passes.conditions()


@pytest.mark.virtual_time
async def test_what_is_told_of_a_silent_cloud_stays_with_the_next_process(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.failing = EVERYTHING
    for _ in range(3):
        await passes.look()
    told = passes.status().conditions
    await passes.restart()
    passes.written()
    await passes.go_on(1)
    assert (passes.status().conditions, passes.written()) == (told, [])
    passes.cloud.failing = ()
    await passes.glances(400)
    assert "Stalled" not in passes.conditions()


@pytest.mark.virtual_time
async def test_another_cloud_is_asked_though_the_former_one_wants_not_to_be(passes: Passes) -> None:
    await passes.settled()
    passes.cloud.limited["balance"] = 120
    for _ in range(3):
        await passes.look()
    assert "Stalled" in passes.conditions()
    passes.cloud.limited.clear()
    passes.change({"baseUrl": f"{passes.cloud.url}/another"})
    await passes.go_on(1)
    assert "Stalled" not in passes.conditions()
